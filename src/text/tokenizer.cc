#include "text/tokenizer.h"

#include "format/metadata.h"

namespace meadow::text {

void Tokenizer::Specials::add(std::string_view name, TokenId id) {
  ids.emplace(name, id);
  lengths[name.size()][static_cast<uint8_t>(name[0])] = true;
}

Result<void> check_supported(std::string_view model, std::string_view pre) {
  if (model != "gpt2")
    return fail(
        Code::kUnsupported,
        "tokenizer.ggml.model: expected 'gpt2' (byte-level BPE), the kind that this version "
        "has; got '{}'{}",
        model.substr(0, 64), model == "llama" ? " (SentencePiece)" : "");
  MEADOW_TRY_VOID(pretokenizer(pre));
  return {};
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::from(const VocabData& data) {
  MEADOW_TRY_VOID(check_supported(data.model, data.pre));
  MEADOW_TRY(const Pretokenizer rules, pretokenizer(data.pre));
  MEADOW_TRY(Vocab vocab, Vocab::build(data));
  MEADOW_TRY(Merges merges, Merges::build(vocab, data.merges));
  std::shared_ptr<Tokenizer> out(new Tokenizer(std::move(vocab), std::move(merges)));
  out->pre_ = data.pre;
  out->pretokenizer_ = rules;
  out->add_bos_ = data.add_bos.value_or(rules.add_bos && out->bos() != kNoToken);
  out->add_eos_ = data.add_eos.value_or(false);
  if ((out->add_bos_ && out->bos() == kNoToken) || (out->add_eos_ && out->eos() == kNoToken))
    return fail(
        Code::kCorrupt,
        "tokenizer.ggml.{0}_token_id: expected an id, as the model adds {0} to each prompt; "
        "got none",
        out->add_bos_ && out->bos() == kNoToken ? "bos" : "eos");
  MEADOW_TRY_VOID(out->add_specials());
  return std::shared_ptr<const Tokenizer>(std::move(out));
}

Result<void> Tokenizer::add_specials() {
  for (TokenId id = 0; id < vocab_.size(); id++) {
    const bool user_defined = vocab_.type(id) == TokenType::kUserDefined;
    if (!user_defined && !vocab_.is_special(id)) continue;
    const std::string_view name = vocab_.text(id);
    if (name.size() > kMaxSpecialBytes)
      return fail(Code::kCorrupt,
                  "tokenizer.ggml.tokens[{}]: expected at most {} bytes in a special token, got {}",
                  id, kMaxSpecialBytes, name.size());
    all_.add(name, id);
    if (user_defined) user_defined_.add(name, id);
  }
  return {};
}

std::vector<Tokenizer::Fragment> Tokenizer::partition(std::string_view text,
                                                      const Specials& specials) {
  std::vector<Fragment> fragments = {{text, kNoToken}};
  std::vector<Fragment> next;
  const auto add = [&](std::string_view piece, TokenId token) {
    if (!piece.empty()) next.push_back({piece, token});
  };
  for (const auto& [length, first_bytes] : specials.lengths) {
    next.clear();
    for (const Fragment& fragment : fragments) {
      const std::string_view rest = fragment.text;
      size_t begin = 0, i = 0;
      while (fragment.token == kNoToken && i + length <= rest.size()) {
        if (!first_bytes[static_cast<uint8_t>(rest[i])]) {
          i++;
          continue;
        }
        const auto found = specials.ids.find(rest.substr(i, length));
        if (found == specials.ids.end()) {
          i++;
          continue;
        }
        add(rest.substr(begin, i - begin), kNoToken);
        add(found->first, found->second);
        begin = i = i + length;
      }
      add(rest.substr(begin), fragment.token);
    }
    fragments.swap(next);
  }
  return fragments;
}

void Tokenizer::append_text(std::string_view text, BpeWorkspace& workspace,
                            std::vector<TokenId>& out) const {
  const CleanText cleaned = clean(text);
  size_t code_point = 0, begin = 0;
  for (const uint32_t count : split(cleaned, pretokenizer_.pattern)) {
    size_t end = begin;
    for (uint32_t i = 0; i < count; i++) end += utf8_length(cleaned.code_points[code_point++]);
    const std::string_view word = std::string_view(cleaned.bytes).substr(begin, end - begin);
    begin = end;
    const TokenId whole = pretokenizer_.ignore_merges ? vocab_.find_bytes(word) : kNoToken;
    if (whole != kNoToken)
      out.push_back(whole);
    else
      append_word(vocab_, merges_, word, workspace, out);
  }
}

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  if (text.size() > kMaxTextBytes)
    return fail(Code::kInvalidArgument, "expected a text of at most {} bytes, got {}",
                kMaxTextBytes, text.size());
  std::vector<TokenId> out;
  BpeWorkspace workspace;
  if (options.add_special && add_bos_) out.push_back(bos());
  for (const Fragment& fragment : partition(text, options.parse_special ? all_ : user_defined_)) {
    if (fragment.token != kNoToken)
      out.push_back(fragment.token);
    else if (!fragment.text.empty())
      append_text(fragment.text, workspace, out);
  }
  if (options.add_special && add_eos_) out.push_back(eos());
  return out;
}

std::string_view Tokenizer::piece(TokenId id, bool special) const {
  if (!vocab_.contains(id) || (!special && vocab_.is_special(id))) return {};
  return vocab_.piece(id);
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool special) const {
  std::string out;
  for (const TokenId id : ids) out += piece(id, special);
  return out;
}

}  // namespace meadow::text
