// Code points: their class (letter, number, white space; Unicode 15.1) and UTF-8.
// Thread rule: pure functions; any thread. The class table is built once, at first use.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace meadow::text {

using CodePoint = uint32_t;

constexpr CodePoint kReplacement = 0xFFFD;

enum class CharClass : uint8_t {
  kOther,   // neither of those below: punctuation, symbols, marks, controls, unassigned
  kLetter,  // \p{L}
  kNumber,  // \p{N}
  kSpace,   // \s
};

// kOther for values beyond U+10FFFF.
CharClass char_class(CodePoint code_point);

// Decodes the code point at text[offset] and moves offset behind it; offset < text.size().
// Bytes that cannot be one (a stray continuation, a cut sequence, beyond U+10FFFF) yield
// kReplacement, one byte at a time. Lenient as the tokenizers this must agree with: overlong forms
// and surrogates decode to the value they spell.
CodePoint next_code_point(std::string_view text, size_t& offset);

// Bytes of the code point in UTF-8.
constexpr size_t utf8_length(CodePoint c) {
  return c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
}

// Appends UTF-8; code_point <= U+10FFFF. Surrogates are written as they are.
void append_utf8(CodePoint code_point, std::string& out);

}  // namespace meadow::text
