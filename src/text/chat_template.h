// Renders a conversation as the text that a model was trained on. The family of the template is
// recognised by the text of the Jinja in tokenizer.chat_template; the Jinja itself is not
// evaluated. Thread rule: pure functions; any thread.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace meadow::text {

struct Message {
  std::string role;  // "system" (only as the first), "user" or "assistant"
  std::string content;
};

// How the model writes its BOS and EOS: Tokenizer::piece(bos(), true). Some templates have them
// between the turns.
struct ChatTokens {
  std::string_view bos = "<s>";
  std::string_view eos = "</s>";
};

// The rendered text without a BOS at its very beginning, which Tokenizer::encode() adds where the
// model wants it; encode with parse_special. With `add_generation_prompt` it ends where the answer
// is to begin. Equal to what `transformers` renders, byte for byte (tests/golden).
// Errors: kUnsupported for a template of no known family, with the list of those; kInvalidArgument
// for a conversation that the template itself refuses (roles, their order) or an empty one.
// Templates that print the day of the rendering get the day that they name as their default.
Result<std::string> apply_chat_template(std::string_view jinja, std::span<const Message> messages,
                                        bool add_generation_prompt, ChatTokens tokens = {});

// The family by name, e.g. "chatml"; kUnsupported as above.
Result<std::string_view> chat_family(std::string_view jinja);

}  // namespace meadow::text
