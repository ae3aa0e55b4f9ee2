#include "meadow/terminal.h"

#include <gtest/gtest.h>

namespace meadow::apps {
namespace {

TEST(Terminal, HumanBytes) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(999), "999 B");
  EXPECT_EQ(human_bytes(1000), "1.0 kB");
  EXPECT_EQ(human_bytes(98'362'432), "98.4 MB");
  EXPECT_EQ(human_bytes(999'960'000), "1.0 GB");
  EXPECT_EQ(human_bytes(UINT64_MAX), "18.4 EB");
}

TEST(Terminal, TableAligns) {
  EXPECT_EQ(table({{"a", "bb"}, {"ccc", "d"}}), "a    bb\nccc  d\n");
  EXPECT_EQ(table({}), "");
}

TEST(Terminal, PrintableEscapesControlBytes) {
  EXPECT_EQ(printable("a\033[2Jé\n"), "a\\x1b[2Jé\\x0a");
}

TEST(Terminal, JsonLineSurvivesBadText) {
  const std::string line = to_line({{"text", "bad \xff byte"}});
  EXPECT_TRUE(line.ends_with("}\n"));
  EXPECT_EQ(Json::parse(line)["text"], "bad \xEF\xBF\xBD byte");
}

}  // namespace
}  // namespace meadow::apps
