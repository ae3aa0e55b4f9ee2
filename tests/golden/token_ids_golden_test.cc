// The ids of 11 MB of mixed text, against llama.cpp's tokenizer and Hugging Face's: made by
// tools/golden/token_ids.py. Needs the vocabularies and the corpus that tools/fetch-vocabs gets.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "base/bytes.h"
#include "format/model_file.h"
#include "text/tokenizer.h"

namespace meadow::text {
namespace {

const std::string kRoot = std::string(MEADOW_SOURCE_DIR) + "/";
const std::string kVocabs = kRoot + "models/vocab/";

struct Golden {
  std::map<std::string, std::string> head;
  std::vector<std::string> ids;  // of each piece
};

Golden read_golden(const std::string& name) {
  std::ifstream in(kRoot + "tests/golden/token_ids/" + name + ".txt");
  EXPECT_TRUE(in) << name;
  Golden out;
  std::string line;
  while (std::getline(in, line) && line != "ids") {
    const size_t space = line.find(' ');
    out.head[line.substr(0, space)] = line.substr(space + 1);
  }
  while (std::getline(in, line)) out.ids.push_back(line);
  return out;
}

std::vector<std::string> read_corpus() {
  std::ifstream in(kVocabs + "corpus.bin", std::ios::binary);
  EXPECT_TRUE(in);
  const std::string all((std::istreambuf_iterator<char>(in)), {});
  std::vector<std::string> out;
  for (size_t at = 0; at + 4 <= all.size();) {
    uint32_t length;
    std::memcpy(&length, all.data() + at, 4);
    out.push_back(all.substr(at + 4, length));
    at += 4 + length;
  }
  return out;
}

std::string hash_of(const std::vector<TokenId>& ids) {
  const std::span bytes(reinterpret_cast<const uint8_t*>(ids.data()), ids.size() * sizeof(TokenId));
  return hex(sha256(bytes), 4);
}

std::string hash_of_pieces(const Tokenizer& tokenizer, bool special) {
  Sha256 hash;
  for (TokenId id = 0; id < tokenizer.vocab_size(); id++) {
    hash.update(tokenizer.piece(id, special));
    hash.update(std::string_view("\0", 1));
  }
  return hex(hash.finish());
}

template <class Ids>
std::string joined(const Ids& ids) {
  std::string out;
  for (const TokenId id : ids) out += fmt::format("{}{}", out.empty() ? "" : ",", id);
  return out;
}

class TokenIds : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    golden_ = read_golden(GetParam());
    const std::string path = kRoot + golden_.head["model"];
    if (!std::filesystem::exists(path) || !std::filesystem::exists(kVocabs + "corpus.bin"))
      GTEST_SKIP() << path << " or the corpus is not there: run tools/setup";
    const auto file = format::ModelFile::open(path).value();
    tokenizer_ = Tokenizer::from(file->metadata()).value();
  }
  Golden golden_;
  std::shared_ptr<const Tokenizer> tokenizer_;
};

TEST_P(TokenIds, EqualLlamaCppAndHuggingFace) {
  const std::vector<std::string> corpus = read_corpus();
  ASSERT_EQ(corpus.size(), golden_.ids.size());
  size_t bytes = 0, tokens = 0, wrong = 0;
  for (size_t i = 0; i < corpus.size() && wrong < 5; i++) {
    const EncodeOptions options{.parse_special = i % 2 == 1, .add_special = false};
    const auto ids = tokenizer_->encode(corpus[i], options).value();
    bytes += corpus[i].size();
    tokens += ids.size();
    EXPECT_EQ(hash_of(ids), golden_.ids[i])
        << "piece " << i << " of " << corpus[i].size() << " bytes";
    wrong += hash_of(ids) != golden_.ids[i];
  }
  EXPECT_GT(bytes, 10'000'000u);
  RecordProperty("tokens", static_cast<int>(tokens));
}

TEST_P(TokenIds, DecodeToTheTextTheyCameFrom) {
  const std::vector<std::string> corpus = read_corpus();
  std::array<bool, 256> has_token{};
  for (TokenId id = 0; id < tokenizer_->vocab_size(); id++)
    if (tokenizer_->piece(id).size() == 1)
      has_token[static_cast<uint8_t>(tokenizer_->piece(id)[0])] = true;
  for (size_t i = 0; i < corpus.size(); i += 7) {
    std::string expected;
    for (const char c : clean(corpus[i]).bytes)
      if (has_token[static_cast<uint8_t>(c)]) expected += c;
    const auto ids =
        tokenizer_->encode(corpus[i], {.parse_special = i % 2 == 1, .add_special = false});
    EXPECT_TRUE(tokenizer_->decode(ids.value(), true) == expected) << "piece " << i;
  }
}

TEST_P(TokenIds, PiecesEndsAndBosAreThoseOfLlamaCpp) {
  EXPECT_EQ(std::to_string(tokenizer_->vocab_size()), golden_.head["tokens"]);
  EXPECT_EQ(hash_of_pieces(*tokenizer_, false), golden_.head["pieces_plain"]);
  EXPECT_EQ(hash_of_pieces(*tokenizer_, true), golden_.head["pieces_special"]);
  std::vector<TokenId> ends;
  for (TokenId id = 0; id < tokenizer_->vocab_size(); id++)
    if (tokenizer_->is_end(id)) ends.push_back(id);
  EXPECT_EQ(joined(ends), golden_.head["ends"]);
  EXPECT_EQ(joined(tokenizer_->encode("Hello").value()), golden_.head["with_bos_and_eos"]);
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, TokenIds,
                         testing::Values("smollm2", "gpt-2", "llama-bpe", "qwen2", "starcoder"),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(TokenizerFiles, OtherKindsAreRefusedByName) {
  const auto refused = [](const std::string& file, std::string_view word) {
    const auto opened = format::ModelFile::open(kVocabs + file);
    ASSERT_TRUE(opened) << opened.error().text();
    const auto tokenizer = Tokenizer::from((*opened)->metadata());
    ASSERT_FALSE(tokenizer) << file;
    EXPECT_EQ(tokenizer.error().code, Code::kUnsupported);
    EXPECT_NE(tokenizer.error().message.find(word), std::string::npos) << tokenizer.error().text();
  };
  if (!std::filesystem::exists(kVocabs + "ggml-vocab-llama-spm.gguf"))
    GTEST_SKIP() << "no test vocabularies: run tools/setup";
  refused("ggml-vocab-llama-spm.gguf", "SentencePiece");
  refused("ggml-vocab-falcon.gguf", "'falcon'");
}

}  // namespace
}  // namespace meadow::text
