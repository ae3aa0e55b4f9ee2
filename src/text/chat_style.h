// What the families of chat templates have in common: a conversation is its messages, each between
// a fixed text before and one after. A Style holds these texts and the few rules that differ.
// Thread rule: values; any thread.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/chat_template.h"

namespace meadow::text {

struct Turn {
  std::string before, after;
  bool trim = false;  // white space at both ends of the content
};

enum class SystemPlace {
  kOwnTurn,    // a turn of its own
  kFirstUser,  // inside the first user turn, before its content
  kLastUser,   // the same in the last message, if it is the user's
  kDropped,    // the template ignores it
  kRefused,    // the template has no place for it
};

enum class Thoughts {
  kPlain,  // an answer is repeated as it is
  kQwen3,  // <think>…</think> is taken out of earlier answers, put around those after the query
};

struct Style {
  std::string_view family;
  Turn system, user, assistant;
  SystemPlace system_place = SystemPlace::kOwnTurn;
  std::optional<std::string> default_system;  // rendered if the conversation has none
  bool alternating = false;                   // user, assistant, user, … after the system message
  Thoughts thoughts = Thoughts::kPlain;
  std::string generation;          // what add_generation_prompt adds
  bool always_generation = false;  // the template adds it without being asked
  std::string without_generation;  // added if it is not
  std::string leading_bos;         // what the first turn begins with and encode() adds itself
};

// By the template's text; kUnsupported lists the families.
Result<Style> recognise(std::string_view jinja, ChatTokens tokens);

}  // namespace meadow::text
