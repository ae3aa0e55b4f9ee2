#include "text/chat_template.h"

#include <gtest/gtest.h>

namespace meadow::text {
namespace {

constexpr std::string_view kChatml =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are kind<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + "
    "message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

std::string render(std::string_view jinja, std::vector<Message> messages, bool generation = true) {
  return apply_chat_template(jinja, messages, generation).value();
}

TEST(ChatTemplate, ChatmlWithTheTemplatesOwnSystemPrompt) {
  EXPECT_EQ(render(kChatml, {{"user", "Hi"}}),
            "<|im_start|>system\nYou are kind<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
            "<|im_start|>assistant\n");
  EXPECT_EQ(render(kChatml, {{"system", "Be brief"}, {"user", "Hi"}}, false),
            "<|im_start|>system\nBe brief<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n");
}

TEST(ChatTemplate, ASystemPromptThatCannotBeReadIsNotGuessed) {
  std::string jinja(kChatml);
  jinja.replace(jinja.find("You are kind"), 12, "You' ~ x ~ '");
  EXPECT_EQ(chat_family(jinja).error().code, Code::kUnsupported);
  jinja = kChatml;
  jinja.replace(jinja.find("\nYou are"), 1, " ");
  EXPECT_FALSE(chat_family(jinja));
}

TEST(ChatTemplate, UnknownOnesAreRefusedWithTheKnownFamilies) {
  for (const std::string_view jinja :
       {"", "{{ messages[0].content }}", "<|im_start|> {{ message.content | trim }}"}) {
    const auto family = chat_family(jinja);
    ASSERT_FALSE(family) << jinja;
    EXPECT_EQ(family.error().code, Code::kUnsupported);
    EXPECT_NE(family.error().message.find("llama-3"), std::string::npos);
  }
}

TEST(ChatTemplate, BadConversationsAreRefused) {
  const auto refused = [](std::vector<Message> messages) {
    const auto got = apply_chat_template(kChatml, messages, true);
    return !got && got.error().code == Code::kInvalidArgument;
  };
  EXPECT_TRUE(refused({}));
  EXPECT_TRUE(refused({{"tool", "x"}}));
  EXPECT_TRUE(refused({{"user", "x"}, {"system", "y"}}));
  EXPECT_FALSE(refused({{"user", "x"}, {"user", "y"}}));
}

}  // namespace
}  // namespace meadow::text
