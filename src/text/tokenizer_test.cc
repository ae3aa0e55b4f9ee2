#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "base/rng.h"
#include "format/gguf_writer.h"
#include "format/model_file.h"

namespace meadow::text {
namespace {

// A tiny byte-level vocabulary: every byte, a few merges, a few special tokens.
struct Tiny {
  std::vector<std::string> names;
  std::vector<std::string> merges = {"a b", "ab c", "b c", "Ġ ab", "a a", "aa aa"};
  VocabData data;

  Tiny() {
    for (int byte = 0; byte < 256; byte++) names.push_back(name_of(static_cast<uint8_t>(byte)));
    for (const char* name : {"ab", "abc", "bc", "Ġab", "aa", "aaaa", "<|end|>", "<|end|>>", "<u>"})
      names.emplace_back(name);
    data.model = "gpt2";
    data.pre = "gpt-2";
    data.types.assign(names.size(), 1);
    data.types[262] = data.types[263] = 3;
    data.types[264] = 4;
    data.bos = 262;
    data.eos = 262;
  }
  static std::string name_of(uint8_t byte) {
    for (CodePoint c = 0x21; c < 0x144; c++) {
      std::string name;
      append_utf8(c, name);
      if (bytes_of(name) == std::string(1, static_cast<char>(byte))) return name;
    }
    return {};
  }
  Result<std::shared_ptr<const Tokenizer>> build() {
    data.tokens.assign(names.begin(), names.end());
    data.merges.assign(merges.begin(), merges.end());
    return Tokenizer::from(data);
  }
};
using Ids = std::vector<TokenId>;

TEST(Tokenizer, MergesInOrderOfRank) {
  Tiny tiny;
  const auto t = tiny.build().value();
  EXPECT_EQ(t->encode("abc").value(), Ids{257});
  EXPECT_EQ(t->encode("abbc").value(), (Ids{256, 258}));
  EXPECT_EQ(t->encode("x ab").value(), (Ids{'x', 259}));
  EXPECT_EQ(t->encode("aaaaaaa").value(), (Ids{261, 260, 'a'}));  // equal ranks: leftmost first
  EXPECT_EQ(t->encode("").value(), Ids{});
  EXPECT_EQ(t->encode("\xFF").value(), t->encode("\xEF\xBF\xBD").value());
}

TEST(Tokenizer, SpecialTokens) {
  Tiny tiny;
  const auto t = tiny.build().value();
  EXPECT_EQ(t->encode("a<|end|>b").value(), (Ids{'a', 262, 'b'}));
  EXPECT_EQ(t->encode("<|end|>><u>").value(), (Ids{263, 264}));  // the longest name wins
  // Without parse_special only user-defined tokens are cut out.
  const Ids plain = t->encode("<|end|><u>", {.parse_special = false}).value();
  EXPECT_EQ(plain.size(), 8u);
  EXPECT_EQ(plain.back(), 264);
  EXPECT_EQ(t->piece(262), "");
  EXPECT_EQ(t->piece(262, true), "<|end|>");
  EXPECT_EQ(t->piece(264), "<u>");
  EXPECT_EQ(t->piece(-1), "");
  EXPECT_EQ(t->piece(t->vocab_size()), "");
  EXPECT_TRUE(t->is_end(262));
  EXPECT_FALSE(t->is_end(263));
  EXPECT_EQ(t->find("<|end|>"), 262);
  EXPECT_EQ(t->eot(), 262);
}

TEST(Tokenizer, BosAndEosAsTheFileSays) {
  Tiny tiny;
  tiny.data.add_bos = true;
  tiny.data.add_eos = true;
  const auto t = tiny.build().value();
  EXPECT_EQ(t->encode("a").value(), (Ids{262, 'a', 262}));
  EXPECT_EQ(t->encode("").value(), (Ids{262, 262}));
  EXPECT_EQ(t->encode("a", {.add_special = false}).value(), Ids{'a'});
  tiny.data.bos.reset();
  EXPECT_EQ(tiny.build().error().code, Code::kCorrupt);
  tiny.data.bos = 262;
  tiny.data.add_bos.reset();
  tiny.data.pre = "llama-bpe";  // adds BOS unless told otherwise
  EXPECT_EQ(tiny.build().value()->encode("a").value(), (Ids{262, 'a', 262}));
  tiny.data.bos.reset();
  EXPECT_EQ(tiny.build().value()->encode("a").value(), (Ids{'a', 262}));
}

TEST(Tokenizer, AMissingByteIsLeftOut) {
  Tiny tiny;
  tiny.names[7] = "gone";
  EXPECT_EQ(tiny.build().value()->encode("a\ab").value(), (Ids{'a', 'b'}));
}

TEST(Tokenizer, DecodingGivesTheTextBack) {
  Tiny tiny;
  const auto t = tiny.build().value();
  Rng rng(3);
  for (int round = 0; round < 200; round++) {
    std::string text;
    for (uint64_t n = rng.below(40); n > 0; n--)
      append_utf8(static_cast<CodePoint>(rng.below(0xD800)), text);
    EXPECT_EQ(t->decode(t->encode(text, {.parse_special = false}).value(), true), text);
  }
}

TEST(Tokenizer, BadMetadataIsRefused) {
  const auto refuses = [](auto change, std::string_view word, Code code = Code::kCorrupt) {
    Tiny tiny;
    change(tiny);
    const auto built = tiny.build();
    ASSERT_FALSE(built) << word;
    EXPECT_EQ(built.error().code, code) << built.error().text();
    EXPECT_NE(built.error().message.find(word), std::string::npos) << built.error().text();
  };
  refuses([](Tiny& t) { t.names[5] = t.names[6]; }, "same text");
  refuses([](Tiny& t) { t.data.bos = 265; }, "bos_token_id");
  refuses([](Tiny& t) { t.data.eos = -1; }, "eos_token_id");
  refuses([](Tiny& t) { t.data.eot = int64_t{1} << 40; }, "eot_token_id");
  refuses([](Tiny& t) { t.data.types.pop_back(); }, "token_type");
  refuses([](Tiny& t) { t.data.types[9] = 7; }, "token_type[9]");
  refuses([](Tiny& t) { t.data.types[9] = 6; }, "<0xHH>");
  refuses([](Tiny& t) { t.merges[2] = "b"; }, "merges[2]");
  refuses([](Tiny& t) { t.merges[2] = ""; }, "merges[2]");
  refuses([](Tiny& t) { t.merges[2] = "b zz"; }, "merges[2]");
  refuses([](Tiny& t) { t.merges[2] = "c c"; }, "merges[2]");
  refuses([](Tiny& t) { t.names[262] = std::string(kMaxSpecialBytes + 1, '<'); }, "tokens[262]");
  refuses([](Tiny& t) { t.names[0] = std::string(kMaxTokenBytes + 1, '<'); }, "tokens[0]");
  refuses([](Tiny& t) { t.names.clear(); }, "tokens");
  refuses([](Tiny& t) { t.data.model = "llama"; }, "SentencePiece", Code::kUnsupported);
  refuses([](Tiny& t) { t.data.model = "bert"; }, "'bert'", Code::kUnsupported);
  refuses([](Tiny& t) { t.data.pre = "default"; }, "'default'", Code::kUnsupported);
  refuses([](Tiny& t) { t.data.pre = ""; }, "tokenizer.ggml.pre", Code::kUnsupported);
}

TEST(Tokenizer, EmptyNamesAndRepeatedMergesAreFine) {
  Tiny tiny;
  tiny.names[1] = "";
  tiny.merges.push_back("a b");
  const auto t = tiny.build().value();
  EXPECT_EQ(t->piece(1), "[EMPTY_1]");
  EXPECT_EQ(t->encode("abc").value(), Ids{257});
}

// One word of 1 MB: quadratic merging would take minutes.
TEST(Tokenizer, ALongWordTakesNoQuadraticTime) {
  Tiny tiny;
  const auto t = tiny.build().value();
  const std::string word(size_t{1} << 20, 'a');
  EXPECT_EQ(t->encode(word).value(), Ids(word.size() / 4, 261));
}

TEST(Tokenizer, TooLongATextIsRefused) {
  Tiny tiny;
  const std::string text(kMaxTextBytes + 1, ' ');
  EXPECT_EQ(tiny.build().value()->encode(text).error().code, Code::kInvalidArgument);
}

// The metadata of a file that holds the Tiny vocabulary, changed by `change`.
Result<std::shared_ptr<const Tokenizer>> from_file(auto change) {
  Tiny tiny;
  format::GgufWriter writer;
  writer.add_string("general.architecture", "llama");
  writer.add_string("tokenizer.ggml.model", "gpt2");
  writer.add_string("tokenizer.ggml.pre", "smollm");
  change(writer, tiny);
  auto file = format::ModelFile::open(std::make_shared<format::MemorySource>(writer.bytes(), "x"));
  if (!file) return fail(file.error());
  return Tokenizer::from((*file)->metadata());
}

TEST(Tokenizer, FromAFile) {
  const auto t = from_file([](format::GgufWriter& w, Tiny& tiny) {
                   w.add_strings("tokenizer.ggml.tokens", tiny.names);
                   w.add_i32s("tokenizer.ggml.token_type", tiny.data.types);
                   w.add_strings("tokenizer.ggml.merges", tiny.merges);
                   w.add_u32("tokenizer.ggml.bos_token_id", 262);
                   w.add_bool("tokenizer.ggml.add_bos_token", true);
                 }).value();
  EXPECT_EQ(t->encode("abc7").value(), (Ids{262, 257, '7'}));
  EXPECT_EQ(t->eos(), kNoToken);
}

TEST(Tokenizer, BadFilesAreRefusedWithTheFilesName) {
  const auto refuses = [](auto change, std::string_view word) {
    const auto built = from_file(change);
    ASSERT_FALSE(built) << word;
    EXPECT_TRUE(built.error().message.starts_with("x: ")) << built.error().text();
    EXPECT_NE(built.error().message.find(word), std::string::npos) << built.error().text();
  };
  using format::GgufWriter;
  const auto lists = [](GgufWriter& w, Tiny& tiny) {
    w.add_strings("tokenizer.ggml.tokens", tiny.names);
    w.add_strings("tokenizer.ggml.merges", tiny.merges);
  };
  refuses([](GgufWriter&, Tiny&) {}, "tokenizer.ggml.tokens");
  refuses([](GgufWriter& w, Tiny& t) { w.add_strings("tokenizer.ggml.tokens", t.names); },
          "tokenizer.ggml.merges");
  refuses([](GgufWriter& w, Tiny&) { w.add_u32("tokenizer.ggml.tokens", 1); },
          "tokenizer.ggml.tokens");
  refuses(
      [&](GgufWriter& w, Tiny& t) {
        lists(w, t);
        w.add_string("tokenizer.ggml.bos_token_id", "1");
      },
      "bos_token_id");
  refuses(
      [&](GgufWriter& w, Tiny& t) {
        lists(w, t);
        w.add_u64("tokenizer.ggml.eos_token_id", UINT64_MAX);
      },
      "eos_token_id");
  refuses(
      [&](GgufWriter& w, Tiny& t) {
        lists(w, t);
        w.add_f32s("tokenizer.ggml.token_type", std::vector<float>(t.names.size(), 1));
      },
      "token_type");
  refuses(
      [&](GgufWriter& w, Tiny& t) {
        lists(w, t);
        w.add_u32("tokenizer.ggml.add_bos_token", 1);
      },
      "add_bos_token");
}

TEST(Tokenizer, OfTheSmallModel) {
  const std::string path =
      std::string(MEADOW_SOURCE_DIR) + "/models/SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there: run tools/setup";
  const auto file = format::ModelFile::open(path).value();
  const auto t = Tokenizer::from(file->metadata()).value();
  EXPECT_EQ(t->vocab_size(), 49152);
  EXPECT_EQ(t->pre(), "smollm");
  EXPECT_FALSE(t->add_bos());
  EXPECT_TRUE(t->is_end(t->find("<|im_end|>")));
  EXPECT_EQ(t->encode("Hello world 123! <|im_end|>").value(),
            (Ids{19556, 905, 216, 33, 34, 35, 17, 216, 2}));
  EXPECT_EQ(t->decode(t->encode("Hello world 123! <|im_end|>").value()), "Hello world 123! ");
}

}  // namespace
}  // namespace meadow::text
