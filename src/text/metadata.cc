// Reads a tokenizer's description out of GGUF metadata.
#include <limits>

#include "format/metadata.h"
#include "text/tokenizer.h"

namespace meadow::text {
namespace {

Result<std::vector<std::string_view>> string_array(const format::Metadata& metadata,
                                                   std::string_view key, size_t limit) {
  MEADOW_TRY(const format::StringArray strings, metadata.strings(key));
  if (strings.size() > limit)
    return fail(Code::kCorrupt, "{}: expected at most {} strings, got {}", key, limit,
                strings.size());
  std::vector<std::string_view> out;
  out.reserve(strings.size());
  for (const std::string_view s : strings) out.push_back(s);
  return out;
}

Result<std::vector<int32_t>> token_types(const format::Metadata& metadata) {
  constexpr std::string_view kKey = "tokenizer.ggml.token_type";
  std::vector<int32_t> out;
  if (!metadata.has(kKey)) return out;
  MEADOW_TRY(const format::IntegerArray types, metadata.integers(kKey));
  if (types.size() > kMaxTokens)
    return fail(Code::kCorrupt, "{}: expected at most {} types, got {}", kKey, kMaxTokens,
                types.size());
  out.reserve(types.size());
  for (size_t i = 0; i < types.size(); i++) {
    const int64_t type = types[i];
    out.push_back(type >= 0 && type <= std::numeric_limits<int32_t>::max()
                      ? static_cast<int32_t>(type)
                      : -1);  // refused where types are checked
  }
  return out;
}

Result<std::optional<int64_t>> token_id(const format::Metadata& metadata, std::string_view name) {
  const std::string key = fmt::format("tokenizer.ggml.{}_token_id", name);
  std::optional<int64_t> out;
  if (!metadata.has(key)) return out;
  MEADOW_TRY(const uint64_t id, metadata.u64(key));
  out = id <= kMaxTokens ? static_cast<int64_t>(id) : std::numeric_limits<int64_t>::max();
  return out;
}

Result<std::optional<bool>> flag(const format::Metadata& metadata, std::string_view key) {
  std::optional<bool> out;
  if (!metadata.has(key)) return out;
  MEADOW_TRY(out, metadata.boolean(key));
  return out;
}

Result<VocabData> vocab_data(const format::Metadata& metadata) {
  VocabData data;
  MEADOW_TRY(data.model, metadata.string("tokenizer.ggml.model"));
  MEADOW_TRY(data.pre, metadata.string_or("tokenizer.ggml.pre", ""));
  // What is not supported is said before arrays are read, which other kinds may not have.
  MEADOW_TRY_VOID(check_supported(data.model, data.pre));
  MEADOW_TRY(data.tokens, string_array(metadata, "tokenizer.ggml.tokens", kMaxTokens));
  MEADOW_TRY(data.types, token_types(metadata));
  MEADOW_TRY(data.merges, string_array(metadata, "tokenizer.ggml.merges", kMaxMerges));
  MEADOW_TRY(data.bos, token_id(metadata, "bos"));
  MEADOW_TRY(data.eos, token_id(metadata, "eos"));
  MEADOW_TRY(data.eot, token_id(metadata, "eot"));
  MEADOW_TRY(data.eom, token_id(metadata, "eom"));
  MEADOW_TRY(data.unknown, token_id(metadata, "unknown"));
  MEADOW_TRY(data.padding, token_id(metadata, "padding"));
  MEADOW_TRY(data.fim_padding, token_id(metadata, "fim_pad"));
  MEADOW_TRY(data.fim_repository, token_id(metadata, "fim_rep"));
  MEADOW_TRY(data.fim_separator, token_id(metadata, "fim_sep"));
  MEADOW_TRY(data.add_bos, flag(metadata, "tokenizer.ggml.add_bos_token"));
  MEADOW_TRY(data.add_eos, flag(metadata, "tokenizer.ggml.add_eos_token"));
  return data;
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> Tokenizer::from(const format::Metadata& metadata) {
  Result<VocabData> data = vocab_data(metadata);
  if (!data) return fail(data.error().within(metadata.source()));
  auto tokenizer = from(*data);
  if (!tokenizer) return fail(tokenizer.error().within(metadata.source()));
  return tokenizer;
}

}  // namespace meadow::text
