#include "text/pretokenizer.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace meadow::text {
namespace {

std::vector<std::string> words(std::string_view text, Pattern pattern) {
  const CleanText cleaned = clean(text);
  std::vector<std::string> out;
  size_t i = 0;
  for (const uint32_t count : split(cleaned, pattern)) {
    out.emplace_back();
    for (uint32_t k = 0; k < count; k++) append_utf8(cleaned.code_points[i++], out.back());
  }
  return out;
}
using Words = std::vector<std::string>;

TEST(Pretokenizer, Gpt2) {
  EXPECT_EQ(words("I'm 123 here!!  ok", Pattern::kGpt2),
            (Words{"I", "'m", " 123", " here", "!!", " ", " ok"}));
  EXPECT_EQ(words("I'M \n\n x", Pattern::kGpt2), (Words{"I", "'", "M", " \n\n", " x"}));
  EXPECT_EQ(words("a   ", Pattern::kGpt2), (Words{"a", "   "}));
  EXPECT_EQ(words("", Pattern::kGpt2), Words{});
}

TEST(Pretokenizer, SmollmTakesDigitsOneByOneAndFirst) {
  EXPECT_EQ(words("x  42y", Pattern::kSmollm), (Words{"x", "  ", "4", "2", "y"}));
  EXPECT_EQ(words("7", Pattern::kSmollm), Words{"7"});
}

TEST(Pretokenizer, Llama3) {
  EXPECT_EQ(words("I'LL (see) 12345\r\n\n  x", Pattern::kLlama3),
            (Words{"I", "'LL", " (", "see", ")", " ", "123", "45", "\r\n\n", " ", " x"}));
  EXPECT_EQ(words("a;\n\nb \n c", Pattern::kLlama3), (Words{"a", ";\n\n", "b", " \n", " c"}));
}

TEST(Pretokenizer, Qwen2TakesDigitsOneByOne) {
  EXPECT_EQ(words("$12", Pattern::kQwen2), (Words{"$", "1", "2"}));
  EXPECT_EQ(words("\tfoo", Pattern::kQwen2), Words{"\tfoo"});
}

TEST(Pretokenizer, BytesThatAreNotUtf8BecomeReplacements) {
  EXPECT_EQ(clean("a\xFF\xC3").bytes, "a\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(clean("\xF7\xBF\xBF\xBF").code_points, std::vector<CodePoint>(4, kReplacement));
  EXPECT_EQ(clean("\xC1\x81").bytes, "A");  // overlong, as llama.cpp reads it
}

TEST(Pretokenizer, WordsCoverAnyText) {
  constexpr std::string_view kParts[] = {" ", "  ", "\n",   "\r",     "\t", "'",
                                         "s", "LL", "é",    "中",     "1",  "٣",
                                         "!", ".",  "\xFF", "\u00A0", "ab", "7x"};
  Rng rng(1);
  for (int round = 0; round < 500; round++) {
    std::string text;
    for (uint64_t n = rng.below(30); n > 0; n--) text += kParts[rng.below(std::size(kParts))];
    const std::string whole = clean(text).bytes;
    for (const Pattern pattern :
         {Pattern::kGpt2, Pattern::kSmollm, Pattern::kLlama3, Pattern::kQwen2}) {
      std::string joined;
      for (const std::string& word : words(text, pattern)) {
        EXPECT_FALSE(word.empty());
        joined += word;
      }
      EXPECT_EQ(joined, whole);
    }
  }
}

TEST(Pretokenizer, UnknownNamesAreRefusedWithTheKnownOnes) {
  EXPECT_TRUE(pretokenizer("smollm"));
  const auto unknown = pretokenizer("deepseek-v3");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, Code::kUnsupported);
  EXPECT_NE(unknown.error().message.find("'deepseek-v3'"), std::string::npos);
  EXPECT_NE(unknown.error().message.find("llama-bpe"), std::string::npos);
}

}  // namespace
}  // namespace meadow::text
