#include "text/utf8_stream.h"

#include <cstdint>

namespace meadow::text {
namespace {

constexpr std::string_view kReplacementUtf8 = "\xEF\xBF\xBD";

enum class Form { kWhole, kBeginning, kIllFormed };
struct Sequence {
  Form form;
  size_t length;  // of the code point, the beginning, or the part to replace
};

// The sequence that `bytes` begins with; table 3-7 of the Unicode standard.
Sequence sequence(std::string_view bytes) {
  const auto at = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const uint8_t lead = at(0);
  if (lead < 0x80) return {Form::kWhole, 1};
  if (lead < 0xC2 || lead > 0xF4) return {Form::kIllFormed, 1};
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  for (size_t i = 1; i < length; i++) {
    if (i == bytes.size()) return {Form::kBeginning, i};
    uint8_t low = 0x80, high = 0xBF;
    if (i == 1) {
      if (lead == 0xE0) low = 0xA0;   // overlong
      if (lead == 0xED) high = 0x9F;  // surrogates
      if (lead == 0xF0) low = 0x90;   // overlong
      if (lead == 0xF4) high = 0x8F;  // beyond U+10FFFF
    }
    if (at(i) < low || at(i) > high) return {Form::kIllFormed, i};
  }
  return {Form::kWhole, length};
}

}  // namespace

std::string Utf8Stream::push(std::string_view bytes) {
  held_ += bytes;
  std::string out;
  out.reserve(held_.size());
  std::string_view rest = held_;
  while (!rest.empty()) {
    const Sequence next = sequence(rest);
    if (next.form == Form::kBeginning) break;
    out += next.form == Form::kWhole ? rest.substr(0, next.length) : kReplacementUtf8;
    rest.remove_prefix(next.length);
  }
  held_.erase(0, held_.size() - rest.size());
  return out;
}

std::string Utf8Stream::flush() {
  std::string out(held_.empty() ? std::string_view() : kReplacementUtf8);
  held_.clear();
  return out;
}

}  // namespace meadow::text
