#include "model/hyperparameters.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "model/testing/test_model.h"

namespace meadow::model {
namespace {

using testing::TestModel;

Result<Hyperparameters> read(const TestModel& m) { return hyperparameters(*testing::make_file(m)); }

// The error of a model changed so; fails the test if there is none.
template <class Change>
Error error_with(Change change) {
  TestModel m;
  change(m);
  const auto h = read(m);
  EXPECT_FALSE(h);
  return h ? Error{} : h.error();
}

TEST(Hyperparameters, ReadsWhatTheFileSays) {
  TestModel m;
  m.n_head = 6;
  m.tied_head = true;
  const auto h = read(m);
  ASSERT_TRUE(h) << h.error().text();
  EXPECT_EQ(h->architecture, "llama");
  EXPECT_EQ(h->n_blocks, 4);
  EXPECT_EQ(h->n_embd, 64);
  EXPECT_EQ(h->n_ff, 96);
  EXPECT_EQ(h->n_head, 6);
  EXPECT_EQ(h->n_head_kv, 2);
  EXPECT_EQ(h->head_dim, 32);
  EXPECT_EQ(h->n_rot, 32);
  EXPECT_EQ(h->n_vocab, 100);
  EXPECT_EQ(h->n_ctx, 512);
  EXPECT_EQ(h->norm_epsilon, 1e-5f);
  EXPECT_EQ(h->attention_scale, 1.0f / std::sqrt(32.0f));
  EXPECT_EQ(h->rope_base, 10000.0f);
  EXPECT_EQ(h->rope_scale, 1.0f);
  EXPECT_EQ(h->rope_style, compute::RopeStyle::kNeighbours);
  EXPECT_TRUE(h->tied_head);
}

TEST(Hyperparameters, Defaults) {
  TestModel m;
  m.architecture = "qwen2";
  m.head_dim = 16;
  m.without = {"attention.key_length", "attention.value_length", "attention.head_count_kv",
               "rope.freq_base"};
  const auto h = read(m);
  ASSERT_TRUE(h) << h.error().text();
  EXPECT_EQ(h->head_dim, 16);  // width / heads
  EXPECT_EQ(h->n_head_kv, 4);  // as many as query heads
  EXPECT_EQ(h->rope_base, 10000.0f);
  EXPECT_EQ(h->rope_style, compute::RopeStyle::kHalves);
  EXPECT_FALSE(h->tied_head);
}

TEST(Hyperparameters, LinearScalingUnderBothNames) {
  TestModel m;
  m.linear_scale = 4;
  EXPECT_EQ(read(m)->rope_scale, 4.0f);
  TestModel old;
  old.numbers["rope.scale_linear"] = 2;
  EXPECT_EQ(read(old)->rope_scale, 2.0f);
  m.texts["rope.scaling.type"] = "none";
  EXPECT_EQ(read(m)->rope_scale, 1.0f);
}

TEST(Hyperparameters, AWindowLimitsTheContext) {
  TestModel m;
  m.integers["attention.sliding_window"] = 100;
  EXPECT_EQ(read(m)->n_ctx, 100);
  m.integers["attention.sliding_window"] = 4096;
  EXPECT_EQ(read(m)->n_ctx, 512);
}

TEST(Hyperparameters, RefusesOtherArchitecturesByName) {
  const Error e = error_with([](TestModel& m) { m.texts["general.architecture"] = "gpt2"; });
  EXPECT_EQ(e.code, Code::kUnsupported);
  EXPECT_NE(e.message.find("gpt2"), std::string::npos);
  EXPECT_NE(e.message.find("llama, qwen2, qwen3"), std::string::npos);
  EXPECT_EQ(error_with([](TestModel& m) { m.without = {"general.architecture"}; }).code,
            Code::kCorrupt);
}

TEST(Hyperparameters, RefusesFeaturesByName) {
  for (const char* key : {"expert_count", "attention.clamp_kqv", "logit_scale"}) {
    const Error e = error_with([&](TestModel& m) { m.integers[key] = 8; });
    EXPECT_EQ(e.code, Code::kUnsupported);
    EXPECT_NE(e.message.find(key), std::string::npos);
  }
  const Error yarn = error_with([](TestModel& m) { m.texts["rope.scaling.type"] = "yarn"; });
  EXPECT_EQ(yarn.code, Code::kUnsupported);
  EXPECT_NE(yarn.message.find("yarn"), std::string::npos);
  EXPECT_EQ(error_with([](TestModel& m) { m.integers["attention.value_length"] = 16; }).code,
            Code::kUnsupported);
}

TEST(Hyperparameters, RefusesImpossibleNumbers) {
  for (const char* key : {"block_count", "embedding_length", "feed_forward_length",
                          "context_length", "attention.head_count", "attention.head_count_kv",
                          "attention.key_length", "rope.dimension_count"})
    for (int64_t bad : {int64_t{0}, int64_t{0xffffffff}}) {
      if (bad != 0 && std::string(key) == "context_length") continue;  // cut to what is possible
      const Error e = error_with([&](TestModel& m) { m.integers[key] = bad; });
      EXPECT_EQ(e.code, Code::kCorrupt) << key << " " << bad << ": " << e.message;
      EXPECT_NE(e.message.find(key), std::string::npos) << e.message;
    }
  for (const char* key : {"block_count", "embedding_length", "attention.head_count",
                          "attention.layer_norm_rms_epsilon"}) {
    const Error e = error_with([&](TestModel& m) { m.without = {key}; });
    EXPECT_EQ(e.code, Code::kCorrupt);
    EXPECT_NE(e.message.find(key), std::string::npos) << e.message;
  }
  for (float bad : {0.0f, -1.0f, std::numeric_limits<float>::infinity(),
                    std::numeric_limits<float>::quiet_NaN()})
    for (const char* key : {"attention.layer_norm_rms_epsilon", "rope.freq_base"})
      EXPECT_EQ(error_with([&](TestModel& m) { m.numbers[key] = bad; }).code, Code::kCorrupt);
  EXPECT_EQ(error_with([](TestModel& m) { m.integers["attention.head_count"] = 5; }).code,
            Code::kCorrupt);
  EXPECT_EQ(error_with([](TestModel& m) { m.integers["rope.dimension_count"] = 34; }).code,
            Code::kCorrupt);
  EXPECT_EQ(error_with([](TestModel& m) { m.integers["rope.dimension_count"] = 15; }).code,
            Code::kCorrupt);
  EXPECT_EQ(error_with([](TestModel& m) { m.integers["embedding_length"] = 96; }).code,
            Code::kCorrupt);  // not that of the embeddings
  EXPECT_EQ(error_with([](TestModel& m) { m.without = {"token_embd.weight"}; }).code,
            Code::kCorrupt);
}

TEST(Hyperparameters, RefusesKeysOfAnotherType) {
  for (const char* key : {"block_count", "attention.head_count", "context_length"}) {
    EXPECT_EQ(error_with([&](TestModel& m) { m.texts[key] = "4"; }).code, Code::kCorrupt);
    EXPECT_EQ(error_with([&](TestModel& m) { m.numbers[key] = 4; }).code, Code::kCorrupt);
  }
}

}  // namespace
}  // namespace meadow::model
