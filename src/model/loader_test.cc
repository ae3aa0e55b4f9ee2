#include "model/loader.h"

#include <gtest/gtest.h>

#include "compute/cpu_ops.h"
#include "model/architecture.h"
#include "model/testing/test_model.h"

namespace meadow::model {
namespace {

using testing::TestModel;

// Loads block 0 as a span would.
Result<void> load(const TestModel& m) {
  const auto file = testing::make_file(m);
  compute::CpuOps ops(1);
  Loader loader(*file, ops);
  MEADOW_TRY(Hyperparameters h, hyperparameters(*file));
  MEADOW_TRY(const Architecture* architecture, find_architecture(h.architecture));
  loader.set_prefix("blk.0.");
  MEADOW_TRY(BlockWeights w, architecture->tensors(loader, h));
  EXPECT_TRUE(w.q.present());
  return loader.check_all_used();
}

// Wide enough for blocks of 256 values.
TestModel of_type(DType type) {
  TestModel m;
  m.type = type;
  m.n_blocks = 1, m.n_embd = 256, m.n_ff = 256, m.head_dim = 64, m.n_vocab = 8;
  return m;
}

Error error_of(const TestModel& m) {
  const auto r = load(m);
  EXPECT_FALSE(r);
  return r ? Error{} : r.error();
}

TEST(Loader, EveryArchitectureAndType) {
  for (const char* architecture : {"llama", "qwen2", "qwen3"})
    for (const DTypeInfo& type : kDTypes) {
      TestModel m = of_type(type.type);
      m.architecture = architecture;
      const auto r = load(m);
      EXPECT_TRUE(r) << architecture << " " << type.name << ": " << r.error().text();
    }
}

TEST(Loader, NamesAMissingTensor) {
  TestModel m;
  for (const char* name : {"blk.0.attn_norm.weight", "blk.0.ffn_down.weight"}) {
    m.without = {name};
    const Error e = error_of(m);
    EXPECT_EQ(e.code, Code::kCorrupt);
    EXPECT_NE(e.message.find(name), std::string::npos);
  }
  m.architecture = "qwen2";
  m.without = {"blk.0.attn_k.bias"};
  EXPECT_EQ(error_of(m).code, Code::kCorrupt);
  m.architecture = "qwen3";
  m.without = {"blk.0.attn_q_norm.weight"};
  EXPECT_EQ(error_of(m).code, Code::kCorrupt);
}

TEST(Loader, RefusesAnotherShape) {
  TestModel m;
  m.integers["feed_forward_length"] = 64;  // the tensors have 96
  const Error e = error_of(m);
  EXPECT_EQ(e.code, Code::kCorrupt);
  EXPECT_NE(e.message.find("[64, 64], got [64, 96]"), std::string::npos) << e.message;
}

TEST(Loader, RefusesATypeByName) {
  TestModel m;
  m.as_i8 = "blk.0.ffn_up.weight";
  const Error e = error_of(m);
  EXPECT_EQ(e.code, Code::kUnsupported);
  EXPECT_NE(e.message.find("I8"), std::string::npos) << e.message;
  EXPECT_NE(e.message.find("Q4_1"), std::string::npos) << e.message;  // what is supported
  EXPECT_NE(e.message.find(m.as_i8), std::string::npos) << e.message;
}

TEST(Loader, RefusesScalesThatAreNotFinite) {
  for (const DTypeInfo& type : kDTypes)
    for (const char* name : {"blk.0.attn_q.weight", "blk.0.ffn_norm.weight"}) {
      TestModel m = of_type(type.type);
      m.corrupt = name;
      const Error e = error_of(m);
      EXPECT_EQ(e.code, Code::kCorrupt) << type.name;
      EXPECT_NE(e.message.find(name), std::string::npos) << e.message;
    }
}

TEST(Loader, RefusesTensorsItWouldLeaveOut) {
  TestModel m;
  m.extra_tensor = "blk.0.post_attention_norm.weight";
  const Error e = error_of(m);
  EXPECT_EQ(e.code, Code::kUnsupported);
  EXPECT_NE(e.message.find(m.extra_tensor), std::string::npos) << e.message;
  m.extra_tensor = "blk.1.post_attention_norm.weight";  // not this block's
  EXPECT_TRUE(load(m));
}

TEST(Loader, OptionalBiases) {
  TestModel m;
  m.extra_tensor = "blk.0.attn_output.bias";
  EXPECT_TRUE(load(m));
}

}  // namespace
}  // namespace meadow::model
