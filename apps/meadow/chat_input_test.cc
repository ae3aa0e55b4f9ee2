#include "meadow/chat_input.h"

#include <gtest/gtest.h>

namespace meadow::apps {
namespace {

TEST(MessageAssembler, OneLine) {
  MessageAssembler assembler;
  EXPECT_EQ(assembler.add("hello"), "hello");
  EXPECT_EQ(assembler.add("a \"quoted\" word"), "a \"quoted\" word");
  EXPECT_FALSE(assembler.pending());
}

TEST(MessageAssembler, TrailingBackslashGoesOn) {
  MessageAssembler assembler;
  EXPECT_EQ(assembler.add("one\\"), std::nullopt);
  EXPECT_TRUE(assembler.pending());
  EXPECT_EQ(assembler.add("two\\"), std::nullopt);
  EXPECT_EQ(assembler.add("three"), "one\ntwo\nthree");
  EXPECT_EQ(assembler.add("next"), "next");
}

TEST(MessageAssembler, QuotesHoldLinesOfAnyKind) {
  MessageAssembler assembler;
  EXPECT_EQ(assembler.add("\"\"\""), std::nullopt);
  EXPECT_EQ(assembler.add("/help\\"), std::nullopt);
  EXPECT_EQ(assembler.add(""), std::nullopt);
  EXPECT_EQ(assembler.add("\"\"\""), "/help\\\n");
  EXPECT_EQ(assembler.add("\"\"\"in one line\"\"\""), "in one line");
  EXPECT_EQ(assembler.add("\"\"\"first"), std::nullopt);
  EXPECT_EQ(assembler.add("last\"\"\""), "first\nlast");
}

TEST(MessageAssembler, ClearForgetsWhatWasBegun) {
  MessageAssembler assembler;
  EXPECT_EQ(assembler.add("\"\"\"begun"), std::nullopt);
  assembler.clear();
  EXPECT_EQ(assembler.add("anew"), "anew");
}

}  // namespace
}  // namespace meadow::apps
