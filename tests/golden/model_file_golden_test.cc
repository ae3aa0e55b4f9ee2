// The reader on the real small model; what it must say comes from the `gguf` Python package.
#include <gtest/gtest.h>

#include <map>

#include "format/ggml_types.h"
#include "format/model_file.h"

namespace meadow::format {
namespace {

constexpr const char* kModel = MEADOW_SOURCE_DIR "/models/SmolLM2-135M-Instruct.Q4_1.gguf";

class RealModel : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = ModelFile::open(kModel);
    ASSERT_TRUE(opened) << opened.error().text() << "\n(`make test` fetches the model)";
    file = *opened;
  }
  std::shared_ptr<ModelFile> file;
};

TEST_F(RealModel, Metadata) {
  const Metadata& metadata = file->metadata();
  EXPECT_EQ(file->version(), 3u);
  EXPECT_EQ(metadata.entries().size(), 33u);
  EXPECT_EQ(metadata.string("general.architecture").value(), "llama");
  EXPECT_EQ(metadata.u64("llama.block_count").value(), 30u);
  EXPECT_EQ(metadata.u64("llama.embedding_length").value(), 576u);
  EXPECT_EQ(metadata.f32("llama.rope.freq_base").value(), 100000.0f);
  EXPECT_EQ(metadata.boolean("tokenizer.ggml.add_bos_token").value(), false);
  const StringArray tokens = metadata.strings("tokenizer.ggml.tokens").value();
  ASSERT_EQ(tokens.size(), 49152u);
  EXPECT_EQ(*tokens.begin(), "<|endoftext|>");
  const StringArray merges = metadata.strings("tokenizer.ggml.merges").value();
  EXPECT_EQ(*merges.begin(), "Ġ t");
  size_t count = 0;
  for ([[maybe_unused]] const std::string_view merge : merges) count++;
  EXPECT_EQ(count, merges.size());
  const IntegerArray types = metadata.integers("tokenizer.ggml.token_type").value();
  ASSERT_EQ(types.size(), 49152u);
  EXPECT_EQ(types[0], 3);
  EXPECT_EQ(types[49151], 1);
}

TEST_F(RealModel, Directory) {
  std::map<std::string, int> types;
  for (const TensorInfo& tensor : file->tensors()) types[ggml_type_name(tensor.ggml_type)]++;
  EXPECT_EQ(types, (std::map<std::string, int>{{"F32", 61}, {"Q4_1", 210}, {"Q8_0", 1}}));
  const TensorInfo* embeddings = file->find("token_embd.weight");
  ASSERT_NE(embeddings, nullptr);
  EXPECT_EQ(embeddings->shape, (std::vector<int64_t>{576, 49152}));
  EXPECT_EQ(embeddings->bytes, 49152u * (576 / 32 * 34));
  uint64_t end = 0;
  for (const TensorInfo& tensor : file->tensors())
    end = std::max(end, tensor.offset + tensor.bytes);
  EXPECT_LE(file->file_bytes() - end, 32u);  // padding
}

TEST_F(RealModel, OpeningAndFingerprintTouchNoWeights) {
  EXPECT_EQ(file->weight_bytes_touched(), 0u);
  const Digest first = file->fingerprint().value();
  EXPECT_EQ(file->weight_bytes_touched(), 0u);
  EXPECT_LE(file->source().touched(Purpose::kFingerprint), 272u * kFingerprintSampleBytes);
  EXPECT_EQ(ModelFile::open(kModel).value()->fingerprint().value(), first);

  uint64_t block_bytes = 0;
  for (const TensorInfo& tensor : file->tensors())
    if (block_of(tensor.name) == 7) block_bytes += tensor.bytes;
  // Both computed by a few lines of Python from their definition in docs/model-files.md.
  EXPECT_EQ(hex(first), "805edcf8e19e32736be85571dde898c73c419f1f30cdd24ed4b21e2c3bc5b265");
  EXPECT_EQ(hex(file->block_hash(7).value()),
            "26d043a5c6c99bc96a7db333874835cc38126e20a5d8ff179459308303ea9429");
  EXPECT_NE(file->block_hash(7).value(), file->block_hash(8).value());
  EXPECT_EQ(file->weight_bytes_touched(), 2 * block_bytes);
  EXPECT_FALSE(file->block_hash(30));
}

}  // namespace
}  // namespace meadow::format
