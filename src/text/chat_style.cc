#include "text/chat_style.h"

#include <array>

namespace meadow::text {
namespace {

class Text {
 public:
  explicit Text(std::string_view text) : text_(text) {}
  bool has(std::string_view part) const { return text_.find(part) != std::string_view::npos; }
  template <class... Parts>
  bool has_any(Parts... parts) const {
    return (has(parts) || ...);
  }
  std::string_view text() const { return text_; }

 private:
  std::string_view text_;
};

using Recognised = std::optional<Style>;

// "<before>role<middle>" … "<after>" for each of the three roles.
void same_turns(Style& style, std::string_view before, std::string_view middle,
                std::string_view after, bool trim) {
  const auto turn = [&](std::string_view role) {
    return Turn{fmt::format("{}{}{}", before, role, middle), std::string(after), trim};
  };
  style.system = turn("system");
  style.user = turn("user");
  style.assistant = turn("assistant");
}

// The system prompt that a ChatML template spells out for conversations without one. False if there
// is one that cannot be read off the template.
bool read_default_system(std::string_view jinja, std::optional<std::string>& out) {
  constexpr std::string_view kBefore = "<|im_start|>system", kAfter = "<|im_end|>";
  for (size_t at = 0; (at = jinja.find(kBefore, at)) != std::string_view::npos;) {
    at += kBefore.size();
    std::string_view rest = jinja.substr(at);
    if (rest.starts_with("\\n"))
      rest.remove_prefix(2);
    else if (rest.starts_with("\n"))
      rest.remove_prefix(1);
    else
      return false;
    if (rest.starts_with('\'') || rest.starts_with('"')) continue;  // followed by an expression
    const std::string_view prompt = rest.substr(0, rest.find(kAfter));
    if (prompt.size() == rest.size() || prompt.find_first_of("'\"{}\\") != std::string_view::npos)
      return false;
    if (out && *out != prompt) return false;
    out = prompt;
  }
  return true;
}

Recognised chatml(const Text& jinja, ChatTokens) {
  if (!jinja.has("<|im_start|>") ||
      jinja.has_any("<|im_sep|>", "<|im_middle|>", "<end_of_utterance>"))
    return std::nullopt;
  Style style{.family = "chatml"};
  same_turns(style, "<|im_start|>", "\n", "<|im_end|>\n", false);
  style.generation = "<|im_start|>assistant\n";
  if (jinja.has("last_query_index") &&
      jinja.has("if enable_thinking is defined and enable_thinking is false") &&
      jinja.has("if loop.last or (not loop.last and reasoning_content)") &&
      !jinja.has_any("image", "trim")) {
    style.family = "qwen3";
    style.thoughts = Thoughts::kQwen3;
    return style;
  }
  // Others that reason, trim or number their messages do so in ways of their own.
  if (jinja.has_any("think", "trim", "strip(", "namespace(", "strftime", "macro"))
    return std::nullopt;
  if (!read_default_system(jinja.text(), style.default_system)) return std::nullopt;
  return style;
}

Recognised phi4(const Text& jinja, ChatTokens) {
  if (!jinja.has("<|im_start|>system<|im_sep|>")) return std::nullopt;
  Style style{.family = "phi-4"};
  same_turns(style, "<|im_start|>", "<|im_sep|>", "<|im_end|>", false);
  if (jinja.has("'<|im_end|><|im_start|>assistant<|im_sep|>'")) {
    style.user.after += "<|im_start|>assistant<|im_sep|>";
    style.assistant.before.clear();
  } else {
    style.generation = "<|im_start|>assistant<|im_sep|>";
  }
  return style;
}

Recognised llama3(const Text& jinja, ChatTokens) {
  if (!jinja.has("<|start_header_id|>") || !jinja.has("<|eot_id|>")) return std::nullopt;
  if (jinja.has_any("think", "<tool_call>", "functools", "<function", "recipient"))
    return std::nullopt;
  Style style{.family = "llama-3"};
  same_turns(style, "<|start_header_id|>", "<|end_header_id|>\n\n", "<|eot_id|>", true);
  style.generation = "<|start_header_id|>assistant<|end_header_id|>\n\n";
  style.always_generation = !jinja.has("add_generation_prompt");
  if (jinja.has("Cutting Knowledge Date: December 2023") && jinja.has("26 Jul 2024")) {
    style.family = "llama-3.1";
    style.system.before += "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n";
    style.default_system = "";
  } else if (jinja.has("Cutting Knowledge Date")) {
    return std::nullopt;
  }
  return style;
}

Recognised llama2(const Text& jinja, ChatTokens tokens) {
  if (!jinja.has("<<SYS>>") || !jinja.has("bos_token + '[INST] ' + content.strip() + ' [/INST]'"))
    return std::nullopt;
  Style style{.family = "llama-2", .alternating = true};
  style.system = {"<<SYS>>\n", "\n<</SYS>>\n\n"};
  style.system_place = SystemPlace::kFirstUser;
  style.leading_bos = tokens.bos;
  style.user = {fmt::format("{}[INST] ", tokens.bos), " [/INST]", true};
  style.assistant = {" ", fmt::format(" {}", tokens.eos), true};
  return style;
}

Recognised mistral(const Text& jinja, ChatTokens tokens) {
  if (!jinja.has("[INST]") || jinja.has("<<SYS>>")) return std::nullopt;
  const std::string eos(tokens.eos);
  Style style{.alternating = true};
  style.system = {"", "\n\n"};
  if (jinja.has("'[SYSTEM_PROMPT] ' + message['content'] + '[/SYSTEM_PROMPT]'")) {
    style.family = "mistral-v7";
    style.alternating = false;
    style.system = {"[SYSTEM_PROMPT] ", "[/SYSTEM_PROMPT]"};
    style.user = {"[INST] ", "[/INST]"};
    style.assistant = {" ", eos};
  } else if (jinja.has("' [INST] ' + system_message")) {
    style.family = "mistral-v1";
    style.system_place = SystemPlace::kFirstUser;
    style.user = {" [INST] ", " [/INST]"};
    style.assistant = {" ", eos};
  } else if (jinja.has("\"[INST] \" + system_message + \"\\n\\n\"")) {
    style.family = "mistral-v3";
    style.system_place = SystemPlace::kLastUser;
    style.user = {"[INST] ", "[/INST]"};
    style.assistant = {" ", eos, jinja.has("message[\"content\"]|trim + eos_token")};
  } else if (jinja.has("\"[INST]\" + system_message + \"\\n\\n\"")) {
    style.family = "mistral-v3-tekken";
    style.system_place = SystemPlace::kLastUser;
    style.user = {"[INST]", "[/INST]"};
    style.assistant = {"", eos};
  } else if (jinja.has("'[INST] ' + message['content'] + ' [/INST]'") &&
             !jinja.has("system_message")) {
    style.family = "mistral-v0";
    style.system_place = SystemPlace::kRefused;
    style.user = {"[INST] ", " [/INST]"};
    style.assistant = {"", jinja.has("message['content'] + eos_token + ' '") ? eos + " " : eos};
  } else {
    return std::nullopt;
  }
  return style;
}

Recognised zephyr(const Text& jinja, ChatTokens tokens) {
  if (!jinja.has("<|user|>") || !jinja.has("message['content'] + eos_token") ||
      !jinja.has("'<|assistant|>' }}") || jinja.has_any("<|end|>", "strip", "trim"))
    return std::nullopt;
  Style style{.family = "zephyr"};
  same_turns(style, "<|", "|>\n", fmt::format("{}\n", tokens.eos), false);
  style.generation = "<|assistant|>\n";
  return style;
}

Recognised phi3(const Text& jinja, ChatTokens tokens) {
  if (!jinja.has("<|end|>") || !jinja.has("<|assistant|>") ||

      jinja.has_any("strip", "trim", "tools", "messages[-1]"))
    return std::nullopt;
  Style style{.family = "phi-3"};
  same_turns(style, "<|", "|>\n", "<|end|>\n", false);
  if (jinja.has_any("'<|end|>' + '\\n' + '<|assistant|>' + '\\n'",
                    "'<|end|>' + '\n' + '<|assistant|>' + '\n'")) {
    style.system_place = SystemPlace::kDropped;
    style.user.after += "<|assistant|>\n";
    style.assistant.before.clear();
    return style;
  }
  style.generation = "<|assistant|>\n";
  if (jinja.has("{% else %}{{ eos_token }}{% endif %}")) style.without_generation = tokens.eos;
  return style;
}

Recognised gemma(const Text& jinja, ChatTokens) {
  if (!jinja.has("<start_of_turn>") || !jinja.has("System role not supported")) return std::nullopt;
  Style style{.family = "gemma", .system_place = SystemPlace::kRefused, .alternating = true};
  style.user = {"<start_of_turn>user\n", "<end_of_turn>\n", true};
  style.assistant = {"<start_of_turn>model\n", "<end_of_turn>\n", true};
  style.generation = "<start_of_turn>model\n";
  return style;
}

Recognised command_r(const Text& jinja, ChatTokens) {
  if (!jinja.has("<|START_OF_TURN_TOKEN|>") || !jinja.has("elif false == true"))
    return std::nullopt;
  constexpr std::string_view kStart = "<|START_OF_TURN_TOKEN|>", kEnd = "<|END_OF_TURN_TOKEN|>";
  Style style{.family = "command-r", .alternating = true};
  style.system = {fmt::format("{}<|SYSTEM_TOKEN|>", kStart), std::string(kEnd)};
  style.user = {fmt::format("{}<|USER_TOKEN|>", kStart), std::string(kEnd), true};
  style.assistant = {fmt::format("{}<|CHATBOT_TOKEN|>", kStart), std::string(kEnd), true};
  style.generation = style.assistant.before;
  return style;
}

Recognised granite(const Text& jinja, ChatTokens) {
  if (!jinja.has("<|start_of_role|>") ||
      jinja.has_any("Knowledge Cutoff", "strftime", "namespace("))
    return std::nullopt;
  Style style{.family = "granite-3.0"};
  same_turns(style, "<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>\n", false);
  style.generation = "<|start_of_role|>assistant<|end_of_role|>";
  return style;
}

constexpr std::array kRecognisers = {chatml, phi4, llama3,    llama2,  mistral,
                                     zephyr, phi3, command_r, granite, gemma};
constexpr std::string_view kFamilies =
    "chatml, qwen3, phi-4, llama-3, llama-3.1, llama-2, mistral-v0, mistral-v1, mistral-v3, "
    "mistral-v3-tekken, mistral-v7, zephyr, phi-3, command-r, granite-3.0, gemma";

}  // namespace

Result<Style> recognise(std::string_view jinja, ChatTokens tokens) {
  for (const auto recogniser : kRecognisers)
    if (Recognised style = recogniser(Text(jinja), tokens)) return std::move(*style);
  return fail(Code::kUnsupported,
              "tokenizer.chat_template: expected a template of a known family ({}), got {}",
              kFamilies, jinja.empty() ? "none" : "another one");
}

}  // namespace meadow::text
