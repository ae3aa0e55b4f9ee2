// Text to token ids and back, as the tokenizer that a model file describes. Byte-level BPE (model
// "gpt2") with the pre-tokenizers that pretokenizer.h lists; the ids are those of llama.cpp.
// Thread rule: immutable; any thread. Owns everything: the model file may go.
#pragma once
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "text/bpe.h"
#include "text/pretokenizer.h"
#include "text/vocab.h"

namespace meadow::format {
class Metadata;
}

namespace meadow::text {

struct EncodeOptions {
  // Control tokens written out in the text ("<|im_end|>") become those tokens; without it they are
  // plain text. Set it for rendered chat templates and for prompts of whoever owns the model.
  bool parse_special = true;
  // Begins with BOS and ends with EOS where the model wants them.
  bool add_special = true;
};

// Whether this version has the kind of tokenizer that a file names in tokenizer.ggml.model and
// tokenizer.ggml.pre; else kUnsupported with what it has.
Result<void> check_supported(std::string_view model, std::string_view pre);

constexpr size_t kMaxTextBytes = size_t{1} << 28;

class Tokenizer {
 public:
  // Fails with kUnsupported (named, with what is supported) for other kinds of tokenizer, kCorrupt
  // for metadata that contradicts itself, kNotFound for metadata that is not there.
  static Result<std::shared_ptr<const Tokenizer>> from(const format::Metadata& metadata);
  static Result<std::shared_ptr<const Tokenizer>> from(const VocabData& data);

  // Bytes of `text` that are not UTF-8 count as U+FFFD. Fails only beyond kMaxTextBytes
  // (kInvalidArgument). O(n log n).
  Result<std::vector<TokenId>> encode(std::string_view text, EncodeOptions options = {}) const;

  // The bytes of a token: not always whole UTF-8 (see Utf8Stream). Control tokens yield their name
  // if `special`, else nothing; ids outside the vocabulary yield nothing. Lives as long as the
  // tokenizer.
  std::string_view piece(TokenId id, bool special = false) const;
  std::string decode(std::span<const TokenId> ids, bool special = false) const;

  int32_t vocab_size() const { return vocab_.size(); }
  TokenId bos() const {
    return vocab_.bos();
  }  // kNoToken if the model has none; so do the next two
  TokenId eos() const { return vocab_.eos(); }
  TokenId eot() const { return vocab_.eot(); }
  bool add_bos() const { return add_bos_; }
  // Whether the token ends an answer.
  bool is_end(TokenId id) const { return vocab_.is_end(id); }
  // The token with this very text, e.g. "<|im_end|>"; kNoToken if there is none.
  TokenId find(std::string_view text) const { return vocab_.find_text(text); }
  // The pre-tokenizer's name in the file.
  const std::string& pre() const { return pre_; }

 private:
  // Tokens that are cut out of the text before it is split.
  struct Specials {
    using FirstBytes = std::array<bool, 256>;              // where a name of one length may begin
    std::map<size_t, FirstBytes, std::greater<>> lengths;  // of the names, the longest first
    std::unordered_map<std::string_view, TokenId> ids;     // by name: views into the vocabulary

    void add(std::string_view name, TokenId id);
  };
  struct Fragment {
    std::string_view text;
    TokenId token;  // kNoToken: plain text
  };

  Tokenizer(Vocab vocab, Merges merges) : vocab_(std::move(vocab)), merges_(std::move(merges)) {}
  Result<void> add_specials();
  static std::vector<Fragment> partition(std::string_view text, const Specials& specials);
  void append_text(std::string_view text, BpeWorkspace& workspace, std::vector<TokenId>& out) const;

  Vocab vocab_;
  Merges merges_;
  std::string pre_;
  Pretokenizer pretokenizer_;
  Specials all_;           // control, unknown and user-defined tokens
  Specials user_defined_;  // cut out in plain text, too
  bool add_bos_ = false;
  bool add_eos_ = false;
};

}  // namespace meadow::text
