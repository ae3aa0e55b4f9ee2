#include "text/unicode.h"

#include <algorithm>
#include <vector>

namespace meadow::text {
namespace {

struct Range {
  CodePoint first, last;
};

#include "text/unicode_ranges.inc"

constexpr Range kSpaces[] = {{0x09, 0x0D},     {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},
                             {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
                             {0x205F, 0x205F}, {0x3000, 0x3000}};

constexpr size_t kCodePoints = 0x110000;

std::vector<CharClass> build_classes() {
  std::vector<CharClass> classes(kCodePoints, CharClass::kOther);
  const auto fill = [&](const auto& ranges, CharClass value) {
    for (const Range& range : ranges)
      std::fill(classes.begin() + range.first, classes.begin() + range.last + 1, value);
  };
  fill(kLetters, CharClass::kLetter);
  fill(kNumbers, CharClass::kNumber);
  fill(kSpaces, CharClass::kSpace);
  return classes;
}

}  // namespace

CharClass char_class(CodePoint code_point) {
  static const std::vector<CharClass> classes = build_classes();
  return code_point < kCodePoints ? classes[code_point] : CharClass::kOther;
}

CodePoint next_code_point(std::string_view text, size_t& offset) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[offset + i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) {
    offset++;
    return lead;
  }
  const size_t length = lead >= 0xF8   ? 0
                        : lead >= 0xF0 ? 4
                        : lead >= 0xE0 ? 3
                        : lead >= 0xC0 ? 2
                                       : 0;
  if (length == 0 || text.size() - offset < length) {
    offset++;
    return kReplacement;
  }
  CodePoint value = lead & (0x7F >> length);
  for (size_t i = 1; i < length; i++) {
    if ((byte(i) & 0xC0) != 0x80) {
      offset++;
      return kReplacement;
    }
    value = (value << 6) | (byte(i) & 0x3F);
  }
  if (value >= kCodePoints) {
    offset++;
    return kReplacement;
  }
  offset += length;
  return value;
}

void append_utf8(CodePoint c, std::string& out) {
  const auto tail = [](CodePoint bits) { return static_cast<char>(0x80 | (bits & 0x3F)); };
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | (c >> 6));
    out += tail(c);
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | (c >> 12));
    out += tail(c >> 6);
    out += tail(c);
  } else {
    out += static_cast<char>(0xF0 | (c >> 18));
    out += tail(c >> 12);
    out += tail(c >> 6);
    out += tail(c);
  }
}

}  // namespace meadow::text
