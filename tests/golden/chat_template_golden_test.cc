// What Jinja makes of the templates of well-known models, and of the small one: made by
// tools/golden/chat_templates.py.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "text/chat_template.h"

namespace meadow::text {
namespace {

TEST(ChatTemplateGolden, EqualsJinja) {
  std::ifstream in(MEADOW_SOURCE_DIR "/tests/golden/chat_templates.json");
  ASSERT_TRUE(in);
  const auto golden = nlohmann::json::parse(in);
  int compared = 0, refused = 0;
  for (const auto& example : golden["cases"]) {
    const std::string name = example["name"], jinja = example["template"], bos = example["bos"],
                      eos = example["eos"];
    const auto family = chat_family(jinja);
    ASSERT_TRUE(family) << name << ": " << family.error().text();
    for (size_t i = 0; i < golden["conversations"].size(); i++) {
      std::vector<Message> messages;
      for (const auto& turn : golden["conversations"][i]) messages.push_back({turn[0], turn[1]});
      for (const bool generation : {false, true}) {
        const auto& expected = example["rendered"][i][generation];
        const auto got = apply_chat_template(jinja, messages, generation, {bos, eos});
        if (expected.is_null()) {
          EXPECT_FALSE(got) << name << ", conversation " << i;
          refused++;
          continue;
        }
        ASSERT_TRUE(got) << name << ", conversation " << i << ": " << got.error().text();
        EXPECT_EQ(*got, expected.get<std::string>())
            << name << " (" << *family << "), conversation " << i;
        compared++;
      }
    }
  }
  EXPECT_GT(compared, 400);
  EXPECT_GT(refused, 50);
}

}  // namespace
}  // namespace meadow::text
