// Splits text into the words inside which byte pairs may be merged, as the pattern that a model
// file names in tokenizer.ggml.pre. The patterns are written out as linear scans instead of regular
// expressions: no backtracking, no stack, a few bytes of state, whatever the text is.
// Thread rule: pure functions; any thread.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/unicode.h"

namespace meadow::text {

enum class Pattern {
  // 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  kGpt2,
  // Every \p{N} by itself first, then kGpt2 in what lies between.
  kSmollm,
  // (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
  // \s*[\r\n]+|\s+(?!\S)|\s+
  kLlama3,
  // The same with \p{N} in place of \p{N}{1,3}.
  kQwen2,
};

struct Pretokenizer {
  Pattern pattern = Pattern::kGpt2;
  bool ignore_merges = false;  // a whole word that is a token is taken without looking at merges
  bool add_bos = false;        // what holds if the file does not say
};

// By the name in tokenizer.ggml.pre. kUnsupported names the known ones.
Result<Pretokenizer> pretokenizer(std::string_view name);

// Text as code points, with bytes that are not UTF-8 replaced by U+FFFD.
struct CleanText {
  std::string bytes;                   // well-formed, but surrogates stay as they were spelled
  std::vector<CodePoint> code_points;  // of `bytes`, in order
  std::vector<CharClass> classes;      // of each code point
};
CleanText clean(std::string_view text);

// The words in order, each as the count of its code points. They cover the text.
std::vector<uint32_t> split(const CleanText& text, Pattern pattern);

}  // namespace meadow::text
