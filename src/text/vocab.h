// The token table of a model: texts, kinds, special ids, and byte-level names turned into bytes.
// Thread rule: immutable once built; any thread. Owns all its text.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/text_index.h"

namespace meadow::text {

using TokenId = int32_t;
constexpr TokenId kNoToken = -1;

// As in tokenizer.ggml.token_type.
enum class TokenType : uint8_t {
  kUndefined = 0,
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

// What a model file says about its tokenizer, not yet believed. Views must outlive the call that
// takes it, no longer.
struct VocabData {
  std::string_view model;                // tokenizer.ggml.model, e.g. "gpt2"
  std::string_view pre;                  // tokenizer.ggml.pre
  std::vector<std::string_view> tokens;  // by id
  std::vector<int32_t> types;            // by id; empty: all normal
  std::vector<std::string_view> merges;  // "left right", best first
  std::optional<int64_t> bos, eos, eot, eom, unknown, padding;
  std::optional<int64_t> fim_padding, fim_repository, fim_separator;
  std::optional<bool> add_bos, add_eos;
};

// What a file may hold; more is refused before anything is allocated for it.
constexpr size_t kMaxTokens = size_t{1} << 22;
constexpr size_t kMaxMerges = size_t{1} << 23;
constexpr size_t kMaxTokenBytes = size_t{1} << 16;
constexpr size_t kMaxSpecialBytes = size_t{1} << 10;  // for tokens that are looked for in text

class Vocab {
 public:
  // Checks counts, ids, types and that no two tokens share a text. kCorrupt names what is wrong.
  static Result<Vocab> build(const VocabData& data);
  Vocab(Vocab&&) = default;
  Vocab& operator=(Vocab&&) = default;

  int32_t size() const { return static_cast<int32_t>(types_.size()); }
  bool contains(TokenId id) const { return id >= 0 && id < size(); }
  // These three need contains(id).
  TokenType type(TokenId id) const { return types_[static_cast<size_t>(id)]; }
  bool is_special(TokenId id) const;  // has no text of its own in an answer: control, unknown
  // The bytes that the token stands for; of a special one its name; of an unused one nothing.
  std::string_view piece(TokenId id) const { return view(pieces_, piece_ends_, id); }
  // The text in the file, e.g. "Ġthe".
  std::string_view text(TokenId id) const { return view(texts_, text_ends_, id); }

  // kNoToken if there is none.
  TokenId find_text(std::string_view text) const;
  TokenId find_bytes(std::string_view bytes) const;  // among byte-level tokens
  TokenId find_byte(uint8_t byte) const { return by_byte_[byte]; }

  TokenId bos() const { return bos_; }
  TokenId eos() const { return eos_; }
  TokenId eot() const { return eot_; }  // end of turn; may be the same as eos
  // Whether the token ends an answer: eos, eot and their kin.
  bool is_end(TokenId id) const;

 private:
  using Ends = std::vector<uint32_t>;  // where the text of each token ends
  using Arena = std::vector<char>;     // stays in place when a Vocab is moved
  static std::string_view view(const Arena& all, const Ends& ends, TokenId id) {
    const size_t i = static_cast<size_t>(id);
    const size_t begin = i == 0 ? 0 : ends[i - 1];
    return {all.data() + begin, ends[i] - begin};
  }
  Vocab() = default;
  Result<void> add_tokens(const VocabData& data);
  Result<void> set_special_ids(const VocabData& data);
  Result<void> add_pieces();
  TokenId mark_control(std::span<const std::string_view> names);
  void mark_ends(const VocabData& data);

  Arena texts_, pieces_;
  Ends text_ends_, piece_ends_;
  std::vector<TokenType> types_;
  TextIndex by_text_, by_bytes_;  // of text() and piece()
  std::array<TokenId, 256> by_byte_{};
  std::vector<TokenId> ends_;  // sorted
  TokenId bos_ = kNoToken, eos_ = kNoToken, eot_ = kNoToken;
};

// The bytes that a byte-level name such as "Ġthe" spells; nothing if any of its characters is none
// of the 256 that stand for bytes.
std::optional<std::string> bytes_of(std::string_view name);

}  // namespace meadow::text
