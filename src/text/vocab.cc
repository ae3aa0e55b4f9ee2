#include "text/vocab.h"

#include <algorithm>

#include "format/metadata.h"
#include "text/unicode.h"

namespace meadow::text {
namespace {

// Byte-level names: printable Latin-1 stands for itself, every other byte for U+0100 and up.
constexpr bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr size_t kNamedCodePoints = 0x144;  // 256 of them, below this
constexpr auto kByteOfCodePoint = [] {
  std::array<int16_t, kNamedCodePoints> table{};
  table.fill(-1);
  size_t next = 0x100;
  for (int byte = 0; byte < 256; byte++)
    table[stands_for_itself(byte) ? static_cast<size_t>(byte) : next++] =
        static_cast<int16_t>(byte);
  return table;
}();

// Tokens known by their text, for files that mark them in no other way.
constexpr std::string_view kTurnEnds[] = {
    "<|eot_id|>",        "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>",
    "<|end_of_text|>",   "<EOT>",      "_<EOT>",  "[EOT]",         "<｜end▁of▁sentence｜>",
    "<end_of_utterance>"};
constexpr std::string_view kMessageEnds[] = {"<|eom_id|>"};
constexpr std::string_view kAnswerEnds[] = {"<|eot_id|>",
                                            "<|im_end|>",
                                            "<|end|>",
                                            "<|return|>",
                                            "<|call|>",
                                            "<end_of_turn>",
                                            "<|endoftext|>",
                                            "</s>",
                                            "<|eom_id|>",
                                            "<EOT>",
                                            "_<EOT>",
                                            "[EOT]",
                                            "[EOS]",
                                            "<|end_of_text|>",
                                            "<end_of_utterance>",
                                            "<eos>",
                                            "<｜end▁of▁sentence｜>"};
constexpr std::string_view kFimPrefix[] = {"<|fim_prefix|>",  "<fim-prefix>", "<fim_prefix>",
                                           "<｜fim▁begin｜>", "<PRE>",        "<|code_prefix|>",
                                           "<|prefix|>"};
constexpr std::string_view kFimSuffix[] = {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>",
                                           "<｜fim▁hole｜>", "<SUF>",        "<|code_suffix|>",
                                           "<|suffix|>"};
constexpr std::string_view kFimMiddle[] = {"<|fim_middle|>", "<fim-middle>", "<fim_middle>",
                                           "<｜fim▁end｜>",  "<MID>",        "<|code_middle|>",
                                           "<|middle|>"};
constexpr std::string_view kFimPadding[] = {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>",
                                            "[PAD]"};
constexpr std::string_view kFimRepository[] = {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>",
                                               "<REPO>", "<reponame>"};
constexpr std::string_view kFimSeparator[] = {"<|file_sep|>"};
// Shown in answers, whatever kind the file gives them.
constexpr std::string_view kAlwaysShown[] = {"<|channel|>", "<|message|>", "<|start|>",
                                             "<|constrain|>"};

void append(std::string_view text, std::vector<char>& arena) {
  arena.insert(arena.end(), text.begin(), text.end());
}

Result<TokenId> checked_id(std::string_view key, std::optional<int64_t> id, size_t n_tokens) {
  if (!id) return kNoToken;
  if (*id < 0 || static_cast<uint64_t>(*id) >= n_tokens)
    return fail(Code::kCorrupt, "tokenizer.ggml.{}_token_id: expected an id below {}, got {}", key,
                n_tokens, *id);
  return static_cast<TokenId>(*id);
}

// "<0x0A>" to the byte it names.
std::optional<char> byte_named(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  int value = 0;
  for (const char c : text.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                             : -1;
    if (digit < 0) return std::nullopt;
    value = value * 16 + digit;
  }
  return static_cast<char>(value);
}

}  // namespace

std::optional<std::string> bytes_of(std::string_view name) {
  std::string bytes;
  bytes.reserve(name.size());
  for (size_t offset = 0; offset < name.size();) {
    const CodePoint c = next_code_point(name, offset);
    if (c >= kNamedCodePoints || kByteOfCodePoint[c] < 0) return std::nullopt;
    bytes += static_cast<char>(kByteOfCodePoint[c]);
  }
  return bytes;
}

Result<Vocab> Vocab::build(const VocabData& data) {
  Vocab vocab;
  MEADOW_TRY_VOID(vocab.add_tokens(data));
  MEADOW_TRY_VOID(vocab.set_special_ids(data));
  vocab.mark_ends(data);
  MEADOW_TRY_VOID(vocab.add_pieces());
  return vocab;
}

Result<void> Vocab::add_tokens(const VocabData& data) {
  const size_t n = data.tokens.size();
  if (n == 0 || n > kMaxTokens)
    return fail(Code::kCorrupt, "tokenizer.ggml.tokens: expected 1 to {} tokens, got {}",
                kMaxTokens, n);
  if (!data.types.empty() && data.types.size() < n)
    return fail(Code::kCorrupt,
                "tokenizer.ggml.token_type: expected one type for each of {} tokens, got {}", n,
                data.types.size());
  size_t total = 0;
  for (const std::string_view token : data.tokens) total += token.size() + 20;
  if (total > UINT32_MAX)
    return fail(Code::kCorrupt, "tokenizer.ggml.tokens: expected less than 4 GiB of text");
  texts_.reserve(total);
  text_ends_.reserve(n);
  types_.reserve(n);
  by_text_.reserve(n);
  for (size_t i = 0; i < n; i++) {
    const int32_t type = data.types.empty() ? 1 : data.types[i];
    if (type < 0 || type > static_cast<int32_t>(TokenType::kByte))
      return fail(Code::kCorrupt, "tokenizer.ggml.token_type[{}]: expected 0 to 6, got {}", i,
                  type);
    if (data.tokens[i].size() > kMaxTokenBytes)
      return fail(Code::kCorrupt, "tokenizer.ggml.tokens[{}]: expected at most {} bytes, got {}", i,
                  kMaxTokenBytes, data.tokens[i].size());
    if (data.tokens[i].empty())
      append(fmt::format("[EMPTY_{}]", i), texts_);
    else
      append(data.tokens[i], texts_);
    text_ends_.push_back(static_cast<uint32_t>(texts_.size()));
    types_.push_back(static_cast<TokenType>(type));
    const auto id = static_cast<TokenId>(i);
    const TokenId other = by_text_.add(text(id), id, [this](TokenId i) { return text(i); });
    if (other != kNoToken)
      return fail(Code::kCorrupt, "tokenizer.ggml.tokens: {} and {} have the same text", other, id);
  }
  return {};
}

Result<void> Vocab::set_special_ids(const VocabData& data) {
  const size_t n = types_.size();
  MEADOW_TRY(bos_, checked_id("bos", data.bos, n));
  MEADOW_TRY(eos_, checked_id("eos", data.eos, n));
  MEADOW_TRY(eot_, checked_id("eot", data.eot, n));
  MEADOW_TRY_VOID(checked_id("eom", data.eom, n));
  MEADOW_TRY_VOID(checked_id("unknown", data.unknown, n));
  MEADOW_TRY_VOID(checked_id("padding", data.padding, n));
  MEADOW_TRY_VOID(checked_id("fim_pad", data.fim_padding, n));
  MEADOW_TRY_VOID(checked_id("fim_rep", data.fim_repository, n));
  MEADOW_TRY_VOID(checked_id("fim_sep", data.fim_separator, n));
  return {};
}

// Makes the first of `names` that exists a control token. Its id, or kNoToken.
TokenId Vocab::mark_control(std::span<const std::string_view> names) {
  for (const std::string_view name : names) {
    const TokenId id = find_text(name);
    if (id == kNoToken) continue;
    types_[static_cast<size_t>(id)] = TokenType::kControl;
    return id;
  }
  return kNoToken;
}

void Vocab::mark_ends(const VocabData& data) {
  const auto given_or = [&](std::optional<int64_t> given, std::span<const std::string_view> names) {
    return given ? static_cast<TokenId>(*given) : mark_control(names);
  };
  mark_control(kFimPrefix);
  mark_control(kFimSuffix);
  mark_control(kFimMiddle);
  if (eot_ == kNoToken) eot_ = mark_control(kTurnEnds);
  ends_ = {eos_,
           eot_,
           given_or(data.eom, kMessageEnds),
           given_or(data.fim_padding, kFimPadding),
           given_or(data.fim_repository, kFimRepository),
           given_or(data.fim_separator, kFimSeparator)};
  for (const std::string_view& name : kAnswerEnds) ends_.push_back(mark_control({&name, 1}));
  std::erase(ends_, kNoToken);
  std::sort(ends_.begin(), ends_.end());
  for (const std::string_view name : kAlwaysShown)
    if (const TokenId id = find_text(name); id != kNoToken)
      types_[static_cast<size_t>(id)] = TokenType::kUserDefined;
}

Result<void> Vocab::add_pieces() {
  by_byte_.fill(kNoToken);
  pieces_.reserve(texts_.size());  // a piece is never longer than its text
  piece_ends_.reserve(types_.size());
  by_bytes_.reserve(types_.size());
  for (TokenId id = 0; id < size(); id++) {
    const std::string_view name = text(id);
    const std::optional<std::string> bytes = bytes_of(name);
    switch (type(id)) {
      case TokenType::kNormal:
        append(bytes ? std::string_view(*bytes) : name, pieces_);
        break;
      case TokenType::kUnknown:
      case TokenType::kControl:
      case TokenType::kUserDefined:
        append(name, pieces_);
        break;
      case TokenType::kUndefined:
      case TokenType::kUnused:
        break;
      case TokenType::kByte: {
        const std::optional<char> byte = byte_named(name);
        if (!byte)
          return fail(Code::kCorrupt,
                      "tokenizer.ggml.tokens[{}]: expected a byte token to read <0xHH>, got {}", id,
                      format::in_quotes(name));
        pieces_.push_back(*byte);
      }
    }
    piece_ends_.push_back(static_cast<uint32_t>(pieces_.size()));
    if (!bytes) continue;
    if (bytes->size() == 1) by_byte_[static_cast<uint8_t>((*bytes)[0])] = id;
    if (piece(id) == *bytes) by_bytes_.add(piece(id), id, [this](TokenId i) { return piece(i); });
  }
  return {};
}

bool Vocab::is_special(TokenId id) const {
  return type(id) == TokenType::kControl || type(id) == TokenType::kUnknown;
}

TokenId Vocab::find_text(std::string_view text) const {
  return by_text_.find(text, [this](TokenId id) { return this->text(id); });
}

TokenId Vocab::find_bytes(std::string_view bytes) const {
  return by_bytes_.find(bytes, [this](TokenId id) { return piece(id); });
}

bool Vocab::is_end(TokenId id) const { return std::binary_search(ends_.begin(), ends_.end(), id); }

}  // namespace meadow::text
