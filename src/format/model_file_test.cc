#include "format/model_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <thread>

#include "base/rng.h"
#include "format/ggml_types.h"
#include "format/test_model.h"

namespace meadow::format {
namespace {

using testing::HasSubstr;

Result<std::shared_ptr<ModelFile>> open(Bytes bytes) {
  return ModelFile::open(std::make_shared<MemorySource>(std::move(bytes)));
}

TEST(Metadata, EveryTypeIsRead) {
  GgufWriter writer;
  const uint8_t minus_one[8] = {255, 255, 255, 255, 255, 255, 255, 255};
  for (const ValueType type : {ValueType::kU8, ValueType::kI8, ValueType::kU16, ValueType::kI16,
                               ValueType::kU32, ValueType::kI32, ValueType::kU64, ValueType::kI64})
    writer.add_raw(name(type), type, ByteView(minus_one, fixed_bytes(type)));
  writer.add_f32("f32", 1.5f);
  Bytes wide;
  append(wide, 2.5);
  writer.add_raw("f64", ValueType::kF64, wide);
  writer.add_bool("bool", true);
  writer.add_string("string", "text");
  writer.add_strings("strings", std::vector<std::string>{"a", "", "ccc"});
  writer.add_i32s("i32s", std::vector<int32_t>{-1, 7});
  writer.add_f32s("f32s", std::vector<float>{0.5f});
  writer.add_strings("none", {});
  const auto file = open(writer.bytes()).value();
  const Metadata& metadata = file->metadata();

  EXPECT_EQ(metadata.u64("u8").value(), 255u);
  EXPECT_EQ(metadata.u64("u16").value(), 65535u);
  EXPECT_EQ(metadata.u64("u32").value(), UINT32_MAX);
  EXPECT_EQ(metadata.u64("u64").value(), UINT64_MAX);
  for (const char* key : {"i8", "i16", "i32", "i64", "f32", "bool", "string", "strings"}) {
    const auto number = metadata.u64(key);
    ASSERT_FALSE(number) << key;
    EXPECT_EQ(number.error().code, Code::kCorrupt);
  }
  EXPECT_EQ(metadata.f32("f32").value(), 1.5f);
  EXPECT_EQ(metadata.f32("f64").value(), 2.5f);
  EXPECT_TRUE(metadata.boolean("bool").value());
  EXPECT_EQ(metadata.string("string").value(), "text");
  const StringArray strings = metadata.strings("strings").value();
  EXPECT_EQ(std::vector<std::string>(strings.begin(), strings.end()),
            (std::vector<std::string>{"a", "", "ccc"}));
  EXPECT_TRUE(metadata.strings("none").value().empty());
  EXPECT_EQ(metadata.integers("i32s").value()[0], -1);
  EXPECT_EQ(metadata.floats("f32s").value()[0], 0.5f);
  EXPECT_FALSE(metadata.strings("i32s"));
  EXPECT_FALSE(metadata.integers("f32s"));
  EXPECT_FALSE(metadata.floats("strings"));
}

TEST(Metadata, AbsentAndWrongKeysAreNamed) {
  GgufWriter writer;
  writer.add_string("s", "x");
  const auto file = open(writer.bytes()).value();
  const auto absent = file->metadata().u64("llama.block_count");
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, Code::kNotFound);
  EXPECT_THAT(absent.error().message, HasSubstr("memory: metadata has no key 'llama.block_count'"));
  EXPECT_EQ(file->metadata().u64_or("absent", 5).value(), 5u);
  EXPECT_EQ(file->metadata().u64_or("s", 5).error().code, Code::kCorrupt);
  EXPECT_THAT(file->metadata().u64("s").error().message, HasSubstr("expected integer, got string"));
}

TEST(ModelFile, TensorsAreWhereTheWriterPutThem) {
  Rng rng(9);
  for (const uint32_t version : {2u, 3u})
    for (const uint32_t alignment : {1u, 8u, 32u, 4096u}) {
      GgufWriter writer(version, alignment);
      std::vector<Bytes> data;
      for (int i = 0; i < 5; i++) {
        const int64_t shape[] = {static_cast<int64_t>(1 + rng.below(50)), 3};
        data.emplace_back(static_cast<size_t>(shape[0] * 3 * 4));
        rng.fill(data.back());
        writer.add_tensor("t" + std::to_string(i), 0, shape, data.back());
      }
      const auto file = open(writer.bytes()).value();
      EXPECT_EQ(file->version(), version);
      EXPECT_EQ(file->alignment(), alignment);
      for (int i = 0; i < 5; i++) {
        const TensorInfo* tensor = file->tensor("t" + std::to_string(i)).value();
        const ByteView bytes = file->data(*tensor).value();
        EXPECT_EQ(Bytes(bytes.begin(), bytes.end()), data[static_cast<size_t>(i)]);
      }
      EXPECT_FALSE(file->tensor("t5"));
    }
}

TEST(ModelFile, EveryKnownTypeHasItsSize) {
  GgufWriter writer;
  std::vector<std::pair<std::string, uint64_t>> expected;
  for (uint32_t number = 0; number < 64; number++) {
    const GgmlType* type = ggml_type(number);
    if (type == nullptr) continue;
    const int64_t shape[] = {type->block_values * 3, 2};
    const auto bytes = static_cast<size_t>(type->block_bytes * 6);
    writer.add_tensor(type->name, number, shape, Bytes(bytes));
    expected.emplace_back(type->name, bytes);
  }
  const auto file = open(writer.bytes()).value();
  for (const auto& [name, bytes] : expected) EXPECT_EQ(file->find(name)->bytes, bytes) << name;
  for (const DTypeInfo& type : kDTypes) {  // the two tables agree
    EXPECT_EQ(ggml_type(type.ggml_type)->name, type.name);
    EXPECT_EQ(ggml_type(type.ggml_type)->block_bytes, type.block_bytes);
    EXPECT_EQ(ggml_type(type.ggml_type)->block_values, type.block_values);
  }
}

// A head much larger than the reader's first window says the same as a small one.
TEST(ModelFile, LongMetadataIsReadInWiderWindows) {
  GgufWriter writer;
  std::vector<std::string> tokens;
  for (int i = 0; i < 60'000; i++) tokens.push_back("token " + std::to_string(i));
  writer.add_strings("tokens", tokens);
  writer.add_string("after", std::string(300'000, 'x'));
  const int64_t shape[] = {8};
  writer.add_tensor("t", 0, shape, Bytes(32, 7));
  const auto file = open(writer.bytes()).value();
  const StringArray read = file->metadata().strings("tokens").value();
  EXPECT_TRUE(std::equal(read.begin(), read.end(), tokens.begin(), tokens.end()));
  EXPECT_EQ(file->metadata().string("after").value().size(), 300'000u);
  EXPECT_EQ(file->data(*file->find("t")).value()[0], 7);
}

TEST(ModelFile, CountsOnlyBytesOfTensorsAskedFor) {
  const auto file = open(test_model_bytes({.n_blocks = 4, .type = DType::kQ8_0})).value();
  ASSERT_TRUE(file->fingerprint());
  EXPECT_EQ(file->weight_bytes_touched(), 0u);
  uint64_t own = 0;
  for (const TensorInfo& tensor : file->tensors())
    if (block_of(tensor.name) == 2) {
      ASSERT_TRUE(file->data(tensor));
      ASSERT_TRUE(file->data(tensor));  // once more changes nothing
      own += tensor.bytes;
    }
  EXPECT_EQ(file->weight_bytes_touched(), own);
  ASSERT_TRUE(file->block_hash(2));
  EXPECT_EQ(file->weight_bytes_touched(), own);
}

TEST(ModelFile, FingerprintSeesWhatItMust) {
  const TestModelOptions options{.n_blocks = 2, .n_ff = 1024};
  const Bytes bytes = test_model_bytes(options);
  const auto file = open(bytes).value();
  const Digest original = file->fingerprint().value();
  EXPECT_EQ(open(bytes).value()->fingerprint().value(), original);
  EXPECT_NE(open(test_model_bytes({.n_blocks = 2, .n_ff = 1024, .seed = 2}))
                .value()
                ->fingerprint()
                .value(),
            original);

  const TensorInfo& large = *file->find("blk.1.ffn_up.weight");
  ASSERT_GT(large.bytes, 2 * kFingerprintSampleBytes);
  const auto changed = [&](uint64_t offset) {
    Bytes copy = bytes;
    copy[offset] ^= 1;
    return open(copy).value();
  };
  EXPECT_NE(changed(large.offset + kFingerprintSampleBytes - 1)->fingerprint().value(), original);
  // Past the sample only the block's hash sees it.
  const auto deep = changed(large.offset + kFingerprintSampleBytes);
  EXPECT_EQ(deep->fingerprint().value(), original);
  EXPECT_NE(deep->block_hash(1).value(), file->block_hash(1).value());
  EXPECT_EQ(deep->block_hash(0).value(), file->block_hash(0).value());
  EXPECT_EQ(file->block_hash(2).error().code, Code::kNotFound);
}

TEST(ModelFile, ServesManyThreads) {
  const auto file = open(test_model_bytes({.n_blocks = 4})).value();
  const Digest fingerprint = open(test_model_bytes({.n_blocks = 4})).value()->fingerprint().value();
  uint64_t all = 0;
  for (const TensorInfo& tensor : file->tensors()) all += tensor.bytes;
  {
    std::vector<std::jthread> threads;
    for (int32_t i = 0; i < 4; i++)
      threads.emplace_back([&, i] {
        for (const TensorInfo& tensor : file->tensors()) EXPECT_TRUE(file->data(tensor));
        EXPECT_EQ(file->fingerprint().value(), fingerprint);
        EXPECT_TRUE(file->block_hash(i));
      });
  }
  EXPECT_EQ(file->weight_bytes_touched(), all);
}

TEST(ModelFile, BlockNamesAreStrict) {
  EXPECT_EQ(block_of("blk.0.attn_q.weight"), 0);
  EXPECT_EQ(block_of("blk.12.x"), 12);
  for (const char* other : {"blk.", "blk.x.y", "blk.1", "blk.01.x", "blk.-1.x", "blk.99999999999.x",
                            "output.weight", "blk.4294967295.x", "Blk.1.x"})
    EXPECT_EQ(block_of(other), std::nullopt) << other;
}

TEST(TestModel, HasEveryVariant) {
  const std::string path = testing::TempDir() + "meadow_model_" + std::to_string(random_seed());
  for (const char* architecture : {"llama", "qwen2", "qwen3"})
    for (const DTypeInfo& type : kDTypes) {
      TestModelOptions options{.architecture = architecture, .type = type.type, .own_head = true};
      if (type.block_values == 256) options.n_embd = options.n_ff = 256, options.head_dim = 64;
      ASSERT_TRUE(write_test_model(options, path));
      const auto file = ModelFile::open(path).value();
      EXPECT_EQ(file->dtype_of(*file->find("blk.1.ffn_down.weight")).value(), type.type);
      EXPECT_EQ(file->find("blk.0.attn_k.bias") != nullptr, architecture == std::string("qwen2"));
      EXPECT_EQ(file->find("blk.0.attn_k_norm.weight") != nullptr,
                architecture == std::string("qwen3"));
      EXPECT_EQ(file->metadata().strings("tokenizer.ggml.tokens").value().size(),
                static_cast<size_t>(file->find("output.weight")->shape[1]));
      EXPECT_EQ(test_model_bytes(options), test_model_bytes(options));
    }
  std::filesystem::remove(path);
}

TEST(TestModel, VocabularyIsConsistent) {
  const std::vector<std::string> tokens = test_vocabulary();
  EXPECT_EQ(std::set<std::string>(tokens.begin(), tokens.end()).size(), tokens.size());
  GgufWriter writer;
  add_test_tokenizer(writer, "smollm");
  const auto file = open(writer.bytes()).value();
  std::set<std::string_view> known(tokens.begin(), tokens.begin() + 3 + 256);
  const StringArray merges = file->metadata().strings("tokenizer.ggml.merges").value();
  for (const std::string_view merge : merges) {
    const size_t space = merge.find(' ');
    EXPECT_TRUE(known.contains(merge.substr(0, space))) << merge;
    EXPECT_TRUE(known.contains(merge.substr(space + 1))) << merge;
    const std::string result =
        std::string(merge.substr(0, space)) + std::string(merge.substr(space + 1));
    known.insert(*std::find(tokens.begin(), tokens.end(), result));
  }
}

}  // namespace
}  // namespace meadow::format
