#include "text/text_index.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/rng.h"

namespace meadow::text {
namespace {

TEST(TextIndex, IsAMap) {
  Rng rng(4);
  std::vector<std::string> texts;
  std::map<std::string, int32_t> expected;
  const auto text_of = [&](int32_t id) { return std::string_view(texts[static_cast<size_t>(id)]); };
  TextIndex index;
  EXPECT_EQ(index.find("a", text_of), TextIndex::kNone);
  index.reserve(3000);
  for (int32_t id = 0; id < 3000; id++) {
    // Short ones, so that many are there already.
    std::string text(rng.below(4), 'a');
    for (char& c : text) c = static_cast<char>(rng.below(20));
    texts.push_back(text);
    const auto [at, added] = expected.try_emplace(text, id);
    EXPECT_EQ(index.add(text, id, text_of), added ? TextIndex::kNone : at->second);
  }
  EXPECT_LT(expected.size(), 3000u);
  for (int i = 0; i < 5000; i++) {
    std::string text(rng.below(4), 'a');
    for (char& c : text) c = static_cast<char>(rng.below(21));
    const auto at = expected.find(text);
    EXPECT_EQ(index.find(text, text_of), at == expected.end() ? TextIndex::kNone : at->second);
  }
}

}  // namespace
}  // namespace meadow::text
