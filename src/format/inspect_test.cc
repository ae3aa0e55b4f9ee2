#include "format/inspect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "format/test_model.h"

namespace meadow::format {
namespace {

using testing::HasSubstr;
using testing::Not;

std::shared_ptr<ModelFile> open(const GgufWriter& writer) {
  return ModelFile::open(std::make_shared<MemorySource>(writer.bytes())).value();
}

TEST(Inspect, SaysWhatIsInAModel) {
  const auto file = open(test_model({.n_blocks = 3, .type = DType::kQ4_1}));
  const std::string text = describe(*file).value();
  EXPECT_THAT(text, HasSubstr("architecture  llama"));
  EXPECT_THAT(text, HasSubstr("  llama.block_count = 3"));
  EXPECT_THAT(text, HasSubstr("tokenizer.ggml.merges = 41 strings"));
  EXPECT_THAT(text, HasSubstr("layer_norm_rms_epsilon = 1e-05\n"));
  EXPECT_THAT(text, HasSubstr("0:3  9 tensors"));
  EXPECT_THAT(text, HasSubstr(hex(file->fingerprint().value())));
  EXPECT_THAT(text, Not(HasSubstr("not supported")));
}

TEST(Inspect, JsonHoldsTheSameFacts) {
  const auto file = open(test_model({.n_blocks = 2, .type = DType::kQ8_0}));
  const auto json = nlohmann::json::parse(describe_json(*file, true).value());
  EXPECT_EQ(json["architecture"], "llama");
  EXPECT_EQ(json["supported"], true);
  EXPECT_EQ(json["metadata"]["llama.embedding_length"], 64);
  EXPECT_EQ(json["metadata"]["tokenizer.ggml.tokens"]["array_of"], "string");
  ASSERT_EQ(json["blocks"].size(), 2u);
  EXPECT_EQ(json["blocks"][1]["hash"], hex(file->block_hash(1).value()));
  uint64_t sum = json["other_bytes"], all = 0;
  for (const auto& block : json["blocks"]) sum += block["bytes"].get<uint64_t>();
  for (const TensorInfo& tensor : file->tensors()) all += tensor.bytes;
  EXPECT_EQ(sum, all);
}

TEST(Inspect, NamesTypesThatCannotBeComputedWith) {
  GgufWriter writer = test_model({.n_blocks = 1});
  const int64_t shape[] = {256, 2};
  writer.add_tensor("blk.0.odd.weight", 23, shape, Bytes(2 * 136));
  const auto file = open(writer);
  EXPECT_THAT(describe(*file).value(),
              HasSubstr("IQ4_XS   1 tensors, 272 bytes  (not supported by this"));
  const auto type = file->dtype_of(*file->find("blk.0.odd.weight"));
  ASSERT_FALSE(type);
  EXPECT_EQ(type.error().code, Code::kUnsupported);
  EXPECT_THAT(type.error().message,
              HasSubstr("'blk.0.odd.weight' is IQ4_XS; this version computes with F32"));
}

TEST(Inspect, HostileTextReachesNoTerminal) {
  GgufWriter writer;
  writer.add_string("general.architecture", "\x1b[2Jboo\n");
  writer.add_string("broken\xff", "\xfe\xff");
  const auto file = open(writer);
  const std::string text = describe(*file).value();
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, HasSubstr("\\x1b[2Jboo\\x0a"));
  EXPECT_TRUE(nlohmann::json::accept(describe_json(*file).value()));
}

TEST(Printable, ShowsTextAndEscapesTheRest) {
  EXPECT_EQ(printable("it's Ġ 中 🙂", 99), "it's Ġ 中 🙂");
  EXPECT_EQ(printable("\x1b[2J\x7f\\", 99), "\\x1b[2J\\x7f\\x5c");
  EXPECT_EQ(printable("\xc2\x9b"
                      "1m",
                      99),
            "\\xc2\\x9b1m");                                    // CSI as UTF-8
  EXPECT_EQ(printable("\xe2\x80\xae", 99), "\\xe2\\x80\\xae");  // right to left
  EXPECT_EQ(printable("\xff\xc0\xaf\xed\xa0\x80", 99), "\\xff\\xc0\\xaf\\xed\\xa0\\x80");
  EXPECT_EQ(printable("中中", 5), "中…");  // not within a character
  EXPECT_EQ(printable("中", 3), "中");
}

}  // namespace
}  // namespace meadow::format
