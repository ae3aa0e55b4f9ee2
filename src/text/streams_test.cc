#include <gtest/gtest.h>

#include "base/rng.h"
#include "text/stop_strings.h"
#include "text/utf8_stream.h"

namespace meadow::text {
namespace {

constexpr std::string_view kFFFD = "\xEF\xBF\xBD";

std::string stream(std::string_view bytes, Rng& rng) {
  Utf8Stream stream;
  std::string out;
  while (!bytes.empty()) {
    const size_t n = rng.below(bytes.size()) + 1;
    const std::string part = stream.push(bytes.substr(0, n));
    out += part;
    bytes.remove_prefix(n);
  }
  return out + stream.flush();
}

TEST(Utf8Stream, KeepsBackOnlyABeginning) {
  Utf8Stream s;
  EXPECT_EQ(s.push("a\xF0\x9F"), "a");
  EXPECT_EQ(s.push("\x98"), "");
  EXPECT_EQ(s.push("\x80!"), "\xF0\x9F\x98\x80!");
  EXPECT_EQ(s.push("\xE4\xB8"), "");
  EXPECT_EQ(s.flush(), kFFFD);
  EXPECT_EQ(s.flush(), "");
}

TEST(Utf8Stream, IllFormedBytesBecomeReplacementsAtOnce) {
  const std::string fffd(kFFFD);
  const std::pair<std::string_view, std::string> cases[] = {
      {"\xFF", fffd},
      {"\x80x", fffd + "x"},
      {"\xC0\x80", fffd + fffd},             // overlong
      {"\xED\xA0\x80", fffd + fffd + fffd},  // surrogate
      {"\xF4\x90\x80\x80", fffd + fffd + fffd + fffd},
      {"\xE4\xB8z", fffd + "z"},  // one for the cut sequence
      {"\xF0\x9F\x98\xF0\x9F\x98\x80", fffd + "\xF0\x9F\x98\x80"},
  };
  for (const auto& [bytes, expected] : cases) {
    Utf8Stream s;
    EXPECT_EQ(s.push(bytes), expected);
    EXPECT_EQ(s.flush(), "");
  }
}

TEST(Utf8Stream, TheCutsDoNotMatter) {
  Rng rng(11);
  for (int round = 0; round < 2000; round++) {
    std::string bytes;
    for (uint64_t n = rng.below(24); n > 0; n--) {
      constexpr uint8_t kBytes[] = {0x41, 0x80, 0xBF, 0x9F, 0xC3, 0xE0, 0xE4, 0xED,
                                    0xA0, 0xF0, 0x90, 0xF4, 0x8F, 0xFF, 0xB8, 0xAD};
      bytes += static_cast<char>(kBytes[rng.below(16)]);
    }
    Utf8Stream whole;
    const std::string first = whole.push(bytes);
    const std::string expected = first + whole.flush();
    EXPECT_EQ(stream(bytes, rng), expected);
    EXPECT_EQ(stream(expected, rng), expected);  // and it is well-formed
  }
}

TEST(StopStrings, AcrossBorders) {
  auto s = StopStrings::create({"</s>", "User:"}).value();
  EXPECT_EQ(s.push("hello <"), "hello ");
  EXPECT_EQ(s.push("/b> Us"), "</b> ");
  EXPECT_EQ(s.push("ers. Us"), "Users. ");
  EXPECT_FALSE(s.stopped());
  EXPECT_EQ(s.push("er: more"), "");
  EXPECT_TRUE(s.stopped());
  EXPECT_EQ(s.push("x"), "");
  EXPECT_EQ(s.flush(), "");
}

TEST(StopStrings, WhatWasKeptBackComesAtTheEnd) {
  auto s = StopStrings::create({"STOP"}).value();
  EXPECT_EQ(s.push("aSTO"), "a");
  EXPECT_EQ(s.flush(), "STO");
  auto none = StopStrings::create({}).value();
  EXPECT_EQ(none.push("any"), "any");
}

TEST(StopStrings, TheCutsDoNotMatter) {
  Rng rng(12);
  for (int round = 0; round < 3000; round++) {
    std::vector<std::string> stops;
    const auto text = [&](uint64_t n) {
      std::string out;
      for (; n > 0; n--) out += static_cast<char>('a' + rng.below(2));
      return out;
    };
    for (uint64_t n = rng.below(3); n > 0; n--) stops.push_back(text(1 + rng.below(5)));
    const std::string all = text(rng.below(20));
    // The reference: the stop that ends first, of those the longest.
    std::string expected = all;
    for (size_t end = 0; end <= all.size() && expected == all; end++) {
      size_t longest = 0;
      for (const std::string& stop : stops)
        if (all.substr(0, end).ends_with(stop)) longest = std::max(longest, stop.size());
      if (longest > 0) expected = all.substr(0, end - longest);
    }
    auto s = StopStrings::create(stops).value();
    std::string out;
    for (size_t i = 0; i < all.size();) {
      const size_t n = 1 + rng.below(all.size() - i);
      out += s.push(all.substr(i, n));
      i += n;
    }
    out += s.flush();
    EXPECT_EQ(out, expected) << all;
    EXPECT_EQ(s.stopped(), expected != all);
  }
}

TEST(StopStrings, BadOnesAreRefused) {
  EXPECT_EQ(StopStrings::create({""}).error().code, Code::kInvalidArgument);
  EXPECT_FALSE(StopStrings::create({std::string(StopStrings::kMaxBytes + 1, 'x')}));
  EXPECT_FALSE(StopStrings::create(std::vector<std::string>(StopStrings::kMaxStrings + 1, "x")));
}

}  // namespace
}  // namespace meadow::text
