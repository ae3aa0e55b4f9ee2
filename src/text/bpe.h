// Byte pair encoding: the merges of a vocabulary, and a word cut into tokens by them.
// Thread rule: Merges is immutable; any thread. A BpeWorkspace belongs to one thread.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/vocab.h"

namespace meadow::text {

// Which pairs of tokens merge, into what, and how soon. Looked up by the left token, then by binary
// search over what may follow it: no hash that a file could be made to flood.
class Merges {
 public:
  // Each merge is "left right"; its parts and their concatenation must be tokens (kCorrupt). Of a
  // pair given twice the first counts.
  static Result<Merges> build(const Vocab& vocab, std::span<const std::string_view> merges);

  struct Merge {
    TokenId right;
    TokenId result;
    uint32_t rank;  // the lowest is merged first
  };
  // Null if the pair does not merge.
  const Merge* find(TokenId left, TokenId right) const;

 private:
  std::vector<Merge> merges_;       // by left, then right
  std::vector<uint32_t> first_of_;  // first_of_[left] .. first_of_[left + 1]
};

// Reused from word to word.
struct BpeWorkspace {
  struct Symbol {
    TokenId id;
    int32_t previous, next;  // -1 at the ends
    bool alive;
  };
  struct Candidate {
    uint32_t rank;
    int32_t left, right;
    TokenId left_id, right_id, result;
  };
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
};

// Appends the tokens of one word of less than 2 GiB. O(n log n). A byte that has no token of its
// own is left out, as the tokenizers this must agree with do.
void append_word(const Vocab& vocab, const Merges& merges, std::string_view word,
                 BpeWorkspace& workspace, std::vector<TokenId>& out);

}  // namespace meadow::text
