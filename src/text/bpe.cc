#include "text/bpe.h"

#include <algorithm>
#include <string>

#include "format/metadata.h"

namespace meadow::text {
namespace {

struct Pair {
  TokenId left;
  Merges::Merge merge;
};

Result<Pair> parse_merge(const Vocab& vocab, std::string_view text, size_t index,
                         std::string& joined) {
  const size_t space = text.empty() ? std::string_view::npos : text.find(' ', 1);
  if (space == std::string_view::npos || text.size() > 2 * kMaxTokenBytes)
    return fail(Code::kCorrupt, "tokenizer.ggml.merges[{}]: expected two tokens, got {}", index,
                format::in_quotes(text));
  const std::string_view left = text.substr(0, space), right = text.substr(space + 1);
  joined.assign(left).append(right);
  const TokenId ids[] = {vocab.find_text(left), vocab.find_text(right), vocab.find_text(joined)};
  if (std::find(std::begin(ids), std::end(ids), kNoToken) != std::end(ids))
    return fail(Code::kCorrupt,
                "tokenizer.ggml.merges[{}]: expected two tokens that make a third, got {}", index,
                format::in_quotes(text));
  return Pair{ids[0], {ids[1], ids[2], static_cast<uint32_t>(index)}};
}

// std::push_heap keeps the largest in front: the largest is what merges first.
bool merges_later(const BpeWorkspace::Candidate& a, const BpeWorkspace::Candidate& b) {
  return a.rank > b.rank || (a.rank == b.rank && a.left > b.left);
}

void add_candidate(const Merges& merges, int32_t left, int32_t right, BpeWorkspace& w) {
  if (left < 0 || right < 0) return;
  const TokenId left_id = w.symbols[static_cast<size_t>(left)].id;
  const TokenId right_id = w.symbols[static_cast<size_t>(right)].id;
  const Merges::Merge* merge = merges.find(left_id, right_id);
  if (merge == nullptr) return;
  w.heap.push_back({merge->rank, left, right, left_id, right_id, merge->result});
  std::push_heap(w.heap.begin(), w.heap.end(), merges_later);
}

}  // namespace

Result<Merges> Merges::build(const Vocab& vocab, std::span<const std::string_view> merges) {
  if (merges.size() > kMaxMerges)
    return fail(Code::kCorrupt, "tokenizer.ggml.merges: expected at most {} merges, got {}",
                kMaxMerges, merges.size());
  std::vector<Pair> pairs;
  pairs.reserve(merges.size());
  std::string joined;
  for (size_t i = 0; i < merges.size(); i++) {
    MEADOW_TRY(const Pair pair, parse_merge(vocab, merges[i], i, joined));
    pairs.push_back(pair);
  }
  const auto key = [](const Pair& p) { return std::pair(p.left, p.merge.right); };
  std::stable_sort(pairs.begin(), pairs.end(),
                   [&](const Pair& a, const Pair& b) { return key(a) < key(b); });
  pairs.erase(std::unique(pairs.begin(), pairs.end(),
                          [&](const Pair& a, const Pair& b) { return key(a) == key(b); }),
              pairs.end());
  Merges out;
  out.merges_.reserve(pairs.size());
  out.first_of_.assign(static_cast<size_t>(vocab.size()) + 1, 0);
  for (const Pair& pair : pairs) {
    out.first_of_[static_cast<size_t>(pair.left) + 1]++;
    out.merges_.push_back(pair.merge);
  }
  for (size_t i = 1; i < out.first_of_.size(); i++) out.first_of_[i] += out.first_of_[i - 1];
  return out;
}

const Merges::Merge* Merges::find(TokenId left, TokenId right) const {
  if (left < 0 || right < 0) return nullptr;
  const Merge* begin = merges_.data() + first_of_[static_cast<size_t>(left)];
  const Merge* end = merges_.data() + first_of_[static_cast<size_t>(left) + 1];
  const Merge* found = std::lower_bound(
      begin, end, right, [](const Merge& merge, TokenId id) { return merge.right < id; });
  return found != end && found->right == right ? found : nullptr;
}

void append_word(const Vocab& vocab, const Merges& merges, std::string_view word, BpeWorkspace& w,
                 std::vector<TokenId>& out) {
  const auto n = static_cast<int32_t>(word.size());
  w.symbols.clear();
  w.heap.clear();
  for (int32_t i = 0; i < n; i++) {
    const auto byte = static_cast<uint8_t>(word[static_cast<size_t>(i)]);
    w.symbols.push_back({vocab.find_byte(byte), i - 1, i + 1 < n ? i + 1 : -1, true});
    add_candidate(merges, i - 1, i, w);
  }
  while (!w.heap.empty()) {
    std::pop_heap(w.heap.begin(), w.heap.end(), merges_later);
    const BpeWorkspace::Candidate c = w.heap.back();
    w.heap.pop_back();
    BpeWorkspace::Symbol& left = w.symbols[static_cast<size_t>(c.left)];
    BpeWorkspace::Symbol& right = w.symbols[static_cast<size_t>(c.right)];
    // Stale if either side has merged with another since.
    if (!left.alive || !right.alive || left.id != c.left_id || right.id != c.right_id) continue;
    left.id = c.result;
    left.next = right.next;
    right.alive = false;
    if (left.next >= 0) w.symbols[static_cast<size_t>(left.next)].previous = c.left;
    add_candidate(merges, left.previous, c.left, w);
    add_candidate(merges, c.left, left.next, w);
  }
  for (const BpeWorkspace::Symbol& symbol : w.symbols)
    if (symbol.alive && symbol.id != kNoToken) out.push_back(symbol.id);
}

}  // namespace meadow::text
