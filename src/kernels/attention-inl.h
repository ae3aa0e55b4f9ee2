// Attention over pages. Per-target header.
//
// The unit of work is one cache head times up to 16 tokens: all query heads of that cache head and
// all those tokens share each group of keys and values, widened once. Nothing is kept beyond the
// scores of one group for 4 queries and one running output per query. Few tokens over a long cache
// are split at partials instead, which the order allows.
#if defined(MEADOW_KERNELS_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEADOW_KERNELS_ATTENTION_INL_H_
#undef MEADOW_KERNELS_ATTENTION_INL_H_
#else
#define MEADOW_KERNELS_ATTENTION_INL_H_
#endif

#include <algorithm>
#include <limits>

#include "kernels/attention_tiles-inl.h"
#include "kernels/float_environment.h"
#include "kernels/page.h"

HWY_BEFORE_NAMESPACE();
namespace meadow::kernels::HWY_NAMESPACE {

constexpr int64_t kTokensPerItem = 16;

// Not yet divided results of some queries: maximum and sum of weights, and out f32 [stride] of
// each. A view of floats(rows, stride) floats.
struct RowStates {
  static int64_t floats(int64_t rows, int64_t stride) {
    return rows * stride + (2 * rows + 15) / 16 * 16;
  }
  RowStates(float* memory, int64_t rows, int64_t row_stride)
      : out(memory), max(memory + rows * row_stride), sum(max + rows), stride(row_stride) {}
  float* row(int64_t r) const { return out + r * stride; }

  float *out, *max, *sum;
  int64_t stride;
};

// total row = total row and then `later` row, which holds higher positions.
HWY_NOINLINE void merge_row(const RowStates& later, const RowStates& total, int64_t r) {
  const float max = std::max(total.max[r], later.max[r]);
  const VF a = hn::Set(df, exp_one(total.max[r] - max));
  const VF b = hn::Set(df, exp_one(later.max[r] - max));
  const VF sum = hn::Mul(hn::Set(df, total.sum[r]), a);
  total.max[r] = max;
  total.sum[r] = hn::GetLane(hn::MulAdd(hn::Set(df, later.sum[r]), b, sum));
  for (int64_t i = 0; i < total.stride; i += kLanes) {
    const VF scaled = hn::Mul(hn::Load(df, total.row(r) + i), a);
    hn::Store(hn::MulAdd(hn::Load(df, later.row(r) + i), b, scaled), df, total.row(r) + i);
  }
}

class AttentionCall {
 public:
  AttentionCall(const PageShape& shape, std::span<const uint8_t* const> pages,
                int64_t first_position, int64_t n, const float* q, int64_t n_head, float scale,
                float* out, ThreadPool& pool, Scratch& scratch)
      : shape_(shape),
        layout_(shape),
        pages_(pages),
        first_(first_position),
        n_(n),
        q_(q),
        n_head_(n_head),
        queries_per_head_(n_head / shape.n_head_kv),
        scale_(scale),
        out_(out),
        pool_(pool),
        scratch_(scratch) {}

  void run() {
    work_floats_ = (layout_.head_dim + layout_.value_stride + kTileRows) * kPagePositions;
    work_ = scratch_.get<float>(Scratch::kAttentionWork,
                                static_cast<size_t>(pool_.size() * work_floats_));
    if (n_ <= kTokensPerItem && partials() > 1)
      run_split();
    else
      run_whole();
  }

 private:
  // Tokens [first, last) of the call, for one cache head. Row r is token first + r /
  // queries_per_head, query r % queries_per_head of that head.
  struct Item {
    int64_t head, first, last;
  };

  int64_t partials() const { return (first_ + n_ - 1) / kPartialPositions + 1; }
  int64_t rows(const Item& item) const { return (item.last - item.first) * queries_per_head_; }
  int64_t position(const Item& item, int64_t row) const {
    return first_ + item.first + row / queries_per_head_;
  }
  int64_t query_offset(const Item& item, int64_t row) const {
    const int64_t token = item.first + row / queries_per_head_;
    const int64_t query = item.head * queries_per_head_ + row % queries_per_head_;
    return (token * n_head_ + query) * layout_.head_dim;
  }
  int64_t state_floats() const {
    return RowStates::floats(std::min(n_, kTokensPerItem) * queries_per_head_,
                             layout_.value_stride);
  }

  void run_whole() {
    const int64_t chunks = (n_ + kTokensPerItem - 1) / kTokensPerItem;
    float* memory = scratch_.get<float>(Scratch::kAttentionRows,
                                        static_cast<size_t>(2 * pool_.size() * state_floats()));
    run_ieee(pool_, shape_.n_head_kv * chunks, 1,
             [this, chunks, memory](int64_t begin, int64_t end, int worker) {
               for (int64_t i = begin; i < end; i++) {
                 // The last tokens first: they see the most positions.
                 const int64_t first = (chunks - 1 - i % chunks) * kTokensPerItem;
                 whole_item({i / chunks, first, std::min(first + kTokensPerItem, n_)}, worker,
                            memory + 2 * worker * state_floats());
               }
             });
  }

  void whole_item(const Item& item, int worker, float* memory) {
    const RowStates total(memory, rows(item), layout_.value_stride);
    const RowStates later(memory + state_floats(), rows(item), layout_.value_stride);
    add_partial(item, 0, total, worker);
    for (int64_t begin = kPartialPositions; begin < first_ + item.last;
         begin += kPartialPositions) {
      add_partial(item, begin, later, worker);
      merge(item, begin, later, total);
    }
    finish(item, total);
  }

  void run_split() {
    const int64_t parts = partials();
    float* memory = scratch_.get<float>(
        Scratch::kAttentionRows, static_cast<size_t>(shape_.n_head_kv * parts * state_floats()));
    const auto state = [this, parts, memory](int64_t head, int64_t part) {
      return RowStates(memory + (head * parts + part) * state_floats(), n_ * queries_per_head_,
                       layout_.value_stride);
    };
    run_ieee(pool_, shape_.n_head_kv * parts, 1, [&, this](int64_t begin, int64_t end, int worker) {
      for (int64_t i = begin; i < end; i++)
        add_partial({i / parts, 0, n_}, i % parts * kPartialPositions, state(i / parts, i % parts),
                    worker);
    });
    for (int64_t head = 0; head < shape_.n_head_kv; head++) {
      const Item item{head, 0, n_};
      for (int64_t part = 1; part < parts; part++)
        merge(item, part * kPartialPositions, state(head, part), state(head, 0));
      finish(item, state(head, 0));
    }
  }

  // The partial of positions [begin, begin + 1024) for all rows; rows that see none stay empty.
  void add_partial(const Item& item, int64_t begin, const RowStates& states, int worker) {
    const int64_t count = rows(item);
    std::fill_n(states.out, count * states.stride, 0.0f);
    std::fill_n(states.max, count, -std::numeric_limits<float>::infinity());
    std::fill_n(states.sum, count, 0.0f);
    const int64_t end = std::min(begin + kPartialPositions, first_ + item.last);
    for (int64_t group = begin; group < end; group += kPagePositions)
      add_group(item, group, states, work_ + worker * work_floats_);
  }

  void add_group(const Item& item, int64_t group, const RowStates& states, float* work) {
    const uint8_t* page = pages_[static_cast<size_t>(group / kPagePositions)];
    const uint8_t* stored = page + layout_.key(item.head, 0, 0) * layout_.element_bytes;
    const int64_t key_floats = layout_.head_dim * kPagePositions;
    const auto* keys = reinterpret_cast<const float*>(stored);
    if (shape_.type == DType::kF16) {
      widen(stored, layout_.head_elements(), work);
      keys = work;
    }
    float* scores = work + layout_.head_elements();
    // Rows whose token comes before this group see nothing of it.
    int64_t r = std::max<int64_t>(0, group - first_ - item.first) * queries_per_head_;
    for (const int64_t last = rows(item); r < last; r += kTileRows) {
      const int count = static_cast<int>(std::min<int64_t>(kTileRows, last - r));
      add_tile_of<kTileRows>(count, item, group, r, keys, keys + key_floats, scores, states);
    }
  }

  template <int T>
  void add_tile_of(int count, const Item& item, int64_t group, int64_t first_row, const float* keys,
                   const float* values, float* scores, const RowStates& states) {
    if constexpr (T > 1) {
      if (count < T)
        return add_tile_of<T - 1>(count, item, group, first_row, keys, values, scores, states);
    }
    add_tile<T>(item, group, first_row, keys, values, scores, states);
  }

  template <int T>
  void add_tile(const Item& item, int64_t group, int64_t first_row, const float* keys,
                const float* values, float* scores, const RowStates& states) {
    const float* q[T];
    float* out[T];
    int64_t count[T];  // positions of the group that a row sees; ascending
    for (int t = 0; t < T; t++) {
      const int64_t r = first_row + t;
      q[t] = q_ + query_offset(item, r);
      out[t] = states.row(r);
      count[t] = std::min(kPagePositions, position(item, r) - group + 1);
    }
    score_tile<T>(keys, layout_.head_dim, q, scale_, count[T - 1], scores);
    for (int t = 0; t < T; t++) {
      const int64_t r = first_row + t;
      const float rescale =
          weigh(count[t], scores + t * kPagePositions, states.max[r], states.sum[r]);
      scale_in_place(out[t], states.stride, rescale);
    }
    add_values<T>(values, states.stride, scores, 0, count[0], out);
    for (int t = 1; t < T; t++)
      add_values<1>(values, states.stride, scores + t * kPagePositions, count[0], count[t],
                    out + t);
  }

  void merge(const Item& item, int64_t begin, const RowStates& later, const RowStates& total) {
    for (int64_t r = 0; r < rows(item); r++)
      if (position(item, r) >= begin) merge_row(later, total, r);
  }

  void finish(const Item& item, const RowStates& total) {
    for (int64_t r = 0; r < rows(item); r++) {
      float* out = out_ + query_offset(item, r);
      for (int64_t i = 0; i < layout_.head_dim; i++) out[i] = total.row(r)[i] / total.sum[r];
    }
  }

  const PageShape& shape_;
  PageLayout layout_;
  std::span<const uint8_t* const> pages_;
  int64_t first_, n_;
  const float* q_;
  int64_t n_head_, queries_per_head_;
  float scale_;
  float* out_;
  ThreadPool& pool_;
  Scratch& scratch_;
  int64_t work_floats_ = 0;
  float* work_ = nullptr;  // per worker: keys, values, scores of a tile
};

void attention(const PageShape& shape, std::span<const uint8_t* const> pages,
               int64_t first_position, int64_t n, const float* q, int64_t n_head, float scale,
               float* out, ThreadPool& pool, Scratch& scratch) {
  AttentionCall(shape, pages, first_position, n, q, n_head, scale, out, pool, scratch).run();
}

}  // namespace meadow::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
