#include "text/chat_template.h"

#include "format/metadata.h"
#include "text/chat_style.h"
#include "text/unicode.h"

namespace meadow::text {
namespace {

// White space as Python's str.strip() sees it.
bool is_python_space(CodePoint c) {
  return char_class(c) == CharClass::kSpace || (c >= 0x1C && c <= 0x1F);
}

std::string_view trim(std::string_view text) {
  size_t begin = text.size(), end = 0;
  for (size_t offset = 0; offset < text.size();) {
    const size_t start = offset;
    if (is_python_space(next_code_point(text, offset))) continue;
    begin = std::min(begin, start);
    end = offset;
  }
  return begin < end ? text.substr(begin, end - begin) : std::string_view();
}

std::string_view without_leading_newlines(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of('\n'), text.size()));
}
std::string_view without_trailing_newlines(std::string_view text) {
  return text.substr(0, text.find_last_not_of('\n') + 1);
}

Result<void> check_roles(std::span<const Message> messages, const Style& style) {
  if (messages.empty())
    return fail(Code::kInvalidArgument, "expected at least one message, got none");
  for (size_t i = 0; i < messages.size(); i++) {
    const std::string& role = messages[i].role;
    if (role != "system" && role != "user" && role != "assistant")
      return fail(Code::kInvalidArgument,
                  "message {}: expected the role system, user or assistant, got {}", i,
                  format::in_quotes(role));
    if (role == "system" && i > 0)
      return fail(Code::kInvalidArgument, "message {}: expected a system message only at first", i);
  }
  const bool has_system = messages[0].role == "system";
  if (has_system && style.system_place == SystemPlace::kRefused)
    return fail(
        Code::kInvalidArgument,
        "message 0: the model's chat template ({}) has no place for a system message; put it "
        "into the first user message",
        style.family);
  if (!style.alternating) return {};
  for (size_t i = has_system ? 1 : 0; i < messages.size(); i++) {
    const std::string_view expected = (i - (has_system ? 1 : 0)) % 2 == 0 ? "user" : "assistant";
    if (messages[i].role != expected)
      return fail(
          Code::kInvalidArgument,
          "message {}: expected the role {}, as the model's chat template ({}) wants turns to "
          "alternate; got {}",
          i, expected, style.family, messages[i].role);
  }
  return {};
}

void append_turn(const Turn& turn, std::string_view content, std::string& out) {
  out += turn.before;
  out += turn.trim ? trim(content) : content;
  out += turn.after;
}

// An answer as Qwen3's template repeats it: thoughts only in what follows the last question.
void append_qwen3_answer(const Turn& turn, std::string_view content, bool after_query, bool last,
                         std::string& out) {
  constexpr std::string_view kOpen = "<think>", kClose = "</think>";
  std::string_view thoughts, answer = content;
  if (const size_t first = content.find(kClose); first != std::string_view::npos) {
    answer = without_leading_newlines(content.substr(content.rfind(kClose) + kClose.size()));
    thoughts = without_trailing_newlines(content.substr(0, first));
    if (const size_t open = thoughts.rfind(kOpen); open != std::string_view::npos)
      thoughts = thoughts.substr(open + kOpen.size());
    thoughts = without_trailing_newlines(without_leading_newlines(thoughts));
  }
  out += turn.before;
  if (after_query && (last || !thoughts.empty())) {
    out += fmt::format("{}\n{}\n{}\n\n", kOpen, thoughts, kClose);
    answer = without_leading_newlines(answer);
  }
  out += answer;
  out += turn.after;
}

// The index of the last question: the last user message that is not a tool's answer.
size_t last_query(std::span<const Message> messages) {
  for (size_t i = messages.size(); i-- > 0;) {
    const std::string_view content = messages[i].content;
    if (messages[i].role == "user" &&
        !(content.starts_with("<tool_response>") && content.ends_with("</tool_response>")))
      return i;
  }
  return messages.size() - 1;
}

std::string render(std::span<const Message> messages, const Style& style) {
  std::string out;
  std::string user_prefix;
  const bool has_system = messages[0].role == "system";
  if (has_system || style.default_system) {
    const std::string_view content = has_system ? messages[0].content : *style.default_system;
    if (style.system_place == SystemPlace::kOwnTurn)
      append_turn(style.system, content, out);
    else if (style.system_place != SystemPlace::kDropped)
      append_turn(style.system, content, user_prefix);
  }
  const size_t first = has_system ? 1 : 0;
  const size_t query = last_query(messages);
  for (size_t i = first; i < messages.size(); i++) {
    const Message& message = messages[i];
    const bool last = i + 1 == messages.size();
    if (message.role == "user") {
      const bool here = style.system_place == SystemPlace::kLastUser ? last : i == first;
      append_turn(style.user, (here ? user_prefix : std::string()) + message.content, out);
    } else if (style.thoughts == Thoughts::kQwen3) {
      append_qwen3_answer(style.assistant, message.content, i > query, last, out);
    } else {
      append_turn(style.assistant, message.content, out);
    }
  }
  return out;
}

}  // namespace

Result<std::string> apply_chat_template(std::string_view jinja, std::span<const Message> messages,
                                        bool add_generation_prompt, ChatTokens tokens) {
  MEADOW_TRY(const Style style, recognise(jinja, tokens));
  MEADOW_TRY_VOID(check_roles(messages, style));
  std::string out = render(messages, style);
  out += add_generation_prompt || style.always_generation ? style.generation
                                                          : style.without_generation;
  if (out.starts_with(style.leading_bos)) out.erase(0, style.leading_bos.size());
  return out;
}

Result<std::string_view> chat_family(std::string_view jinja) {
  MEADOW_TRY(const Style style, recognise(jinja, {}));
  return style.family;
}

}  // namespace meadow::text
