// A conversation as the tokens that a model expects.
// Thread rule: pure function.
#pragma once
#include <span>
#include <vector>

#include "base/result.h"
#include "format/model_file.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace meadow::apps {

// Renders with the file's chat template, ready for the answer. kNotFound if the file has none (it
// is no model for talking), kUnsupported for a template of no known family.
inline Result<std::vector<text::TokenId>> chat_prompt(const format::ModelFile& file,
                                                      const text::Tokenizer& tokenizer,
                                                      std::span<const text::Message> messages) {
  const auto jinja = file.metadata().string("tokenizer.chat_template");
  if (!jinja)
    return fail(Code::kNotFound,
                "{} has no chat template, so it was not made for talking: use meadow generate "
                "without --chat",
                file.name());
  const text::ChatTokens tokens{tokenizer.piece(tokenizer.bos(), true),
                                tokenizer.piece(tokenizer.eos(), true)};
  MEADOW_TRY(const auto rendered, text::apply_chat_template(*jinja, messages, true, tokens));
  return tokenizer.encode(rendered);
}

}  // namespace meadow::apps
