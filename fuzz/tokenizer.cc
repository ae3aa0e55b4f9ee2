// A tokenizer's metadata from a hostile file, and text through whatever tokenizer it makes.
// An input is a GGUF file, or lines of text (fuzz/corpus/tokenizer has examples):
//   model, pre-tokenizer, bos eos eot (numbers, "-" for none), the text to encode, then lines
//   "t<type><name>" for tokens and "m<merge>" for merges.
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"
#include "format/model_file.h"
#include "format/source.h"
#include "text/tokenizer.h"

namespace {
using namespace meadow;

std::vector<std::string_view> words_of(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(separator, at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

std::optional<int64_t> number(std::string_view text) {
  if (text.empty() || text == "-") return std::nullopt;
  return std::strtoll(std::string(text).c_str(), nullptr, 10);
}

void use(const text::Tokenizer& tokenizer, std::string_view input) {
  for (const bool parse_special : {false, true}) {
    const auto ids = tokenizer.encode(input, {.parse_special = parse_special});
    MEADOW_CHECK(ids);
    for (const text::TokenId id : *ids) {
      MEADOW_CHECK(id >= 0 && id < tokenizer.vocab_size());
      (void)tokenizer.is_end(id);
    }
    (void)tokenizer.decode(*ids, true);
  }
  for (const text::TokenId id : {-1, 0, tokenizer.vocab_size() - 1, tokenizer.vocab_size()})
    (void)tokenizer.piece(id, true);
}

void from_file(std::string_view data) {
  const auto source = std::make_shared<format::MemorySource>(Bytes(data.begin(), data.end()));
  const auto file = format::ModelFile::open(source);
  if (!file) return;
  if (const auto tokenizer = text::Tokenizer::from((*file)->metadata()))
    use(**tokenizer, "It's 12 <|end|>  \xFF \xE4\xB8\xAD!");
}

void from_lines(std::string_view data) {
  const auto lines = words_of(data, '\n');
  if (lines.size() < 4) return;
  text::VocabData vocab;
  vocab.model = lines[0];
  vocab.pre = lines[1];
  const auto ids = words_of(lines[2], ' ');
  vocab.bos = number(ids[0]);
  if (ids.size() > 1) vocab.eos = number(ids[1]);
  if (ids.size() > 2) vocab.eot = number(ids[2]);
  if (ids.size() > 3) vocab.add_bos = vocab.add_eos = true;
  for (const std::string_view line : std::span(lines).subspan(4)) {
    if (line.starts_with('m')) vocab.merges.push_back(line.substr(1));
    if (!line.starts_with('t') || line.size() < 2) continue;
    vocab.types.push_back(line[1] - '0');
    vocab.tokens.push_back(line.substr(2));
  }
  if (const auto tokenizer = text::Tokenizer::from(vocab)) use(**tokenizer, lines[3]);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  if (input.starts_with("GGUF"))
    from_file(input);
  else
    from_lines(input);
  return 0;
}
