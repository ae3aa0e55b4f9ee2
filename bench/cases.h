// The kernel calls of the tables: products with stored weights, attention over a cache.
// Thread rule: one thread. Cases share weights, caches and pools, and own them together.
#pragma once
#include <vector>

#include "measurement.h"

namespace meadow::bench {

struct ProductShape {
  int64_t k, m;  // weights: [k, m]
};
// Products of every type with every number of tokens and threads. Matrices of a type together
// exceed `cycle_bytes`, so that few tokens find no weights in the caches.
std::vector<Case> product_cases(const ProductShape& shape, const std::vector<DType>& types,
                                const std::vector<int64_t>& tokens, const std::vector<int>& threads,
                                int64_t cycle_bytes);

struct AttentionShape {
  int64_t head_dim, n_head, n_head_kv;
};
// One query at the end of a cache ("decode"), and the last `prefill` queries of it ("prefill"), for
// every cache type and depth.
std::vector<Case> attention_cases(const AttentionShape& shape, const std::vector<DType>& types,
                                  const std::vector<int64_t>& depths, int64_t prefill,
                                  const std::vector<int>& threads, int64_t cycle_bytes);

}  // namespace meadow::bench
