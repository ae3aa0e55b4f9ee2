// Model files with random damage in metadata, directory and weights: an error or finite logits.
#include <gtest/gtest.h>

#include "base/rng.h"
#include "engine/exercise.h"
#include "model/testing/test_model.h"

namespace meadow::engine {
namespace {

model::testing::TestModel small(const char* architecture, DType type) {
  model::testing::TestModel m;
  m.architecture = architecture, m.type = type;
  m.n_blocks = 2, m.n_embd = 32, m.n_ff = 32, m.n_vocab = 20, m.n_head = 2, m.n_head_kv = 1;
  if (info(type).block_values == 256)
    m.n_blocks = 1, m.n_embd = 256, m.n_ff = 256, m.head_dim = 128;
  return m;
}

TEST(Damaged, AnErrorOrFiniteLogits) {
  Rng rng(11);
  int failed = 0, ran = 0;
  for (const char* architecture : {"llama", "qwen2", "qwen3"})
    for (DType type : {DType::kQ4_1, DType::kQ8_0, DType::kF16, DType::kIQ4_NL, DType::kMXFP4,
                       DType::kQ5_1, DType::kQ3_K, DType::kQ5_K}) {
      const Bytes whole = model::testing::make_gguf(small(architecture, type));
      ASSERT_TRUE(exercise(whole));
      for (int round = 0; round < 150; round++) {
        Bytes bytes = whole;
        // Most of it where the structure is.
        const uint64_t end = rng.below(3) ? std::min<uint64_t>(bytes.size(), 2500) : bytes.size();
        for (uint64_t i = 0; i <= rng.below(4); i++)
          bytes[rng.below(end)] = static_cast<uint8_t>(rng.below(3) ? rng.below(256) : 0xff);
        if (rng.below(8) == 0) bytes.resize(rng.below(bytes.size()));
        (exercise(std::move(bytes)) ? ran : failed)++;
      }
    }
  EXPECT_GT(failed, 100);  // the damage is seen
  EXPECT_GT(ran, 100);     // and not all of it is
}

}  // namespace
}  // namespace meadow::engine
