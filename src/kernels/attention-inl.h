// Attention over pages. Per-target header.
//
// The unit of work is one cache head times some tokens, which make about 128 queries: all of them
// share each group of keys and values. More queries than one tile (attention_tiles-inl.h) has them
// widened once, and all tiles pass over the keys before any passes over the values, so that either
// stays in the nearest cache; a single tile widens as it loads. Nothing is kept beyond the scores
// of one group and one running output per query. Few tokens over a long cache are split at partials
// instead, which the order allows; whoever finishes the last partial of a head merges them.
#if defined(MEADOW_KERNELS_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEADOW_KERNELS_ATTENTION_INL_H_
#undef MEADOW_KERNELS_ATTENTION_INL_H_
#else
#define MEADOW_KERNELS_ATTENTION_INL_H_
#endif

#include <algorithm>
#include <atomic>
#include <limits>
#include <vector>

#include "kernels/attention_tiles-inl.h"
#include "kernels/float_environment.h"
#include "kernels/page.h"

HWY_BEFORE_NAMESPACE();
namespace meadow::kernels::HWY_NAMESPACE {

constexpr int64_t kQueriesPerItem = 128;
// At most so many tokens are split at partials; more have items enough.
constexpr int64_t kSplitTokens = 16;

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
  const VF a = exp_of_negative(hn::Set(df, total.max[r] - max));
  const VF b = exp_of_negative(hn::Set(df, later.max[r] - max));
  const VF sum = hn::Mul(hn::Set(df, total.sum[r]), a);
  total.max[r] = max;
  total.sum[r] = hn::GetLane(hn::MulAdd(hn::Set(df, later.sum[r]), b, sum));
  for (int64_t i = 0; i < total.stride; i += kLanes) {
    const VF scaled = hn::Mul(hn::Load(df, total.row(r) + i), a);
    hn::Store(hn::MulAdd(hn::Load(df, later.row(r) + i), b, scaled), df, total.row(r) + i);
  }
}

HWY_INLINE void divide_row(const float* row, float sum, int64_t count, float* out) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    hn::StoreU(hn::Div(hn::Load(df, row + i), hn::Set(df, sum)), df, out + i);
  for (; i < count; i++) out[i] = row[i] / sum;
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
        tokens_per_item_(std::clamp<int64_t>(kQueriesPerItem / queries_per_head_, 1, n)),
        scale_(scale),
        out_(out),
        pool_(pool),
        scratch_(scratch) {}

  void run() {
    const int64_t rows = std::max(tokens_per_item_, std::min(n_, kSplitTokens)) * queries_per_head_;
    work_floats_ = Work::floats(layout_, rows);
    work_ = scratch_.get<float>(Scratch::kAttentionWork,
                                static_cast<size_t>(pool_.size() * work_floats_));
    if (n_ <= kSplitTokens && partials() > 1)
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
  // A worker's memory for one group.
  struct Work {
    static int64_t floats(const PageLayout& layout, int64_t rows) {
      return layout.head_elements() + 2 * layout.blocks * kPagePositions + rows * kPagePositions +
             (rows + 15) / 16 * 16;
    }
    Work(const PageLayout& layout, int64_t rows, float* memory)
        : wide(memory),
          scales(wide + layout.head_elements()),
          scores(scales + 2 * layout.blocks * kPagePositions),
          rescale(scores + rows * kPagePositions) {}

    float* wide;     // keys [64, head_dim], values [value_stride, 64]
    float* scales;   // of keys, of values: each [64, blocks]
    float* scores;   // [64, rows]
    float* rescale;  // [rows]
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

  void run_whole() {
    const int64_t chunks = (n_ + tokens_per_item_ - 1) / tokens_per_item_;
    const int64_t state =
        RowStates::floats(tokens_per_item_ * queries_per_head_, layout_.value_stride);
    float* memory =
        scratch_.get<float>(Scratch::kAttentionRows, static_cast<size_t>(2 * pool_.size() * state));
    run_ieee(pool_, shape_.n_head_kv * chunks, 1,
             [this, chunks, memory, state](int64_t begin, int64_t end, int worker) {
               for (int64_t i = begin; i < end; i++) {
                 // The last tokens first: they see the most positions.
                 const int64_t first = (chunks - 1 - i / shape_.n_head_kv) * tokens_per_item_;
                 const Item item{i % shape_.n_head_kv, first,
                                 std::min(first + tokens_per_item_, n_)};
                 float* own = memory + 2 * worker * state;
                 whole_item(item, worker, RowStates(own, rows(item), layout_.value_stride),
                            RowStates(own + state, rows(item), layout_.value_stride));
               }
             });
  }

  void whole_item(const Item& item, int worker, const RowStates& total, const RowStates& later) {
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
    const int64_t floats = RowStates::floats(n_ * queries_per_head_, layout_.value_stride);
    float* memory = scratch_.get<float>(Scratch::kAttentionRows,
                                        static_cast<size_t>(shape_.n_head_kv * parts * floats));
    const auto state = [&](int64_t head, int64_t part) {
      return RowStates(memory + (head * parts + part) * floats, n_ * queries_per_head_,
                       layout_.value_stride);
    };
    std::vector<std::atomic<int64_t>> missing(static_cast<size_t>(shape_.n_head_kv));
    for (auto& count : missing) count.store(parts, std::memory_order_relaxed);
    run_ieee(pool_, shape_.n_head_kv * parts, 1, [&, this](int64_t begin, int64_t end, int worker) {
      for (int64_t i = begin; i < end; i++) {
        const Item item{i / parts, 0, n_};
        add_partial(item, i % parts * kPartialPositions, state(item.head, i % parts), worker);
        if (missing[static_cast<size_t>(item.head)].fetch_sub(1, std::memory_order_acq_rel) > 1)
          continue;
        for (int64_t part = 1; part < parts; part++)
          merge(item, part * kPartialPositions, state(item.head, part), state(item.head, 0));
        finish(item, state(item.head, 0));
      }
    });
  }

  // The partial of positions [begin, begin + 1024) for all rows; rows that see none stay empty.
  void add_partial(const Item& item, int64_t begin, const RowStates& states, int worker) {
    const int64_t count = rows(item);
    std::fill_n(states.out, count * states.stride, 0.0f);
    std::fill_n(states.max, count, -std::numeric_limits<float>::infinity());
    std::fill_n(states.sum, count, 0.0f);
    const int64_t end = std::min(begin + kPartialPositions, first_ + item.last);
    for (int64_t group = begin; group < end; group += kPagePositions)
      add_group(item, group, states, Work(layout_, count, work_ + worker * work_floats_));
  }

  void add_group(const Item& item, int64_t group, const RowStates& states, const Work& work) {
    const auto index = static_cast<size_t>(group / kPagePositions);
    const uint8_t* page = pages_[index];
    const uint8_t* keys = page + layout_.key(item.head, 0, 0);
    const uint8_t* values = page + layout_.value(item.head, 0, 0);
    const int64_t stride = layout_.value_stride;
    const int64_t ahead =
        group + kPagePositions < first_ + item.last ? pages_[index + 1] - page : 0;
    if (shape_.type == DType::kF32)
      return add_stored(item, group, states, work, FromF32{keys, kPagePositions},
                        FromF32{values, stride}, ahead);
    if (shape_.type == DType::kF16)
      return add_stored(item, group, states, work, FromF16{keys, kPagePositions},
                        FromF16{values, stride}, ahead);
    const int64_t scales = layout_.blocks * kPagePositions;
    widen(FromF16{page + layout_.key_scale(item.head, 0, 0), scales}, 1, scales, work.scales);
    widen(FromF16{page + layout_.value_scale(item.head, 0, 0), scales}, 1, scales,
          work.scales + scales);
    add_stored(item, group, states, work, KeysFromQ8{keys, kPagePositions, work.scales},
               ValuesFromQ8{values, stride, work.scales + scales}, ahead);
  }

  // The rows that see something of the group; the others' tokens come before it.
  template <class Keys, class Values>
  void add_stored(const Item& item, int64_t group, const RowStates& states, const Work& work,
                  const Keys& keys, const Values& values, int64_t ahead) {
    const int64_t first = std::max<int64_t>(0, group - first_ - item.first) * queries_per_head_;
    if (rows(item) - first <= kTileRows)
      return add_rows(item, group, first, states, work, keys, values, ahead);
    if constexpr (Keys::kBytes == 4) {
      add_rows(item, group, first, states, work, keys, values, 0);
    } else {
      float* wide_values = work.wide + layout_.head_dim * kPagePositions;
      widen(keys, layout_.head_dim, kPagePositions, work.wide);
      widen(values, kPagePositions, layout_.value_stride, wide_values);
      const auto bytes = [](const float* p) { return reinterpret_cast<const uint8_t*>(p); };
      add_rows(item, group, first, states, work, FromF32{bytes(work.wide), kPagePositions},
               FromF32{bytes(wide_values), layout_.value_stride}, 0);
    }
  }

  template <class Keys, class Values>
  void add_rows(const Item& item, int64_t group, int64_t first, const RowStates& states,
                const Work& work, const Keys& keys, const Values& values, int64_t ahead) {
    const int64_t last = rows(item);
    const auto tiles = [&](const auto& body) {
      int64_t r = first;
      for (; r + kTileRows <= last; r += kTileRows) body.template operator()<kTileRows>(r);
      if (last - r == 3) body.template operator()<3>(r);
      if (last - r == 2) body.template operator()<2>(r);
      if (last - r == 1) body.template operator()<1>(r);
    };
    tiles([&]<int T>(int64_t r) { weigh_rows<T>(item, group, r, states, work, keys, ahead); });
    tiles(
        [&]<int T>(int64_t r) { add_value_rows<T>(item, group, r, states, work, values, ahead); });
  }

  // Positions of the group that a row sees; ascending with r.
  int64_t seen(const Item& item, int64_t group, int64_t r) const {
    return std::min(kPagePositions, position(item, r) - group + 1);
  }

  template <int T, class Keys>
  void weigh_rows(const Item& item, int64_t group, int64_t r, const RowStates& states,
                  const Work& work, const Keys& keys, int64_t ahead) {
    const float* q[T];
    int64_t count[T];
    for (int t = 0; t < T; t++) {
      q[t] = q_ + query_offset(item, r + t);
      count[t] = seen(item, group, r + t);
    }
    float* scores = work.scores + r * kPagePositions;
    score_tile<T>(keys, layout_.head_dim, q, scale_, count[T - 1], ahead, scores);
    weigh_tile<T>(count, scores, states.max + r, states.sum + r, work.rescale + r);
  }

  template <int T, class Values>
  void add_value_rows(const Item& item, int64_t group, int64_t r, const RowStates& states,
                      const Work& work, const Values& values, int64_t ahead) {
    float* out[T];
    for (int t = 0; t < T; t++) out[t] = states.row(r + t);
    const float* weights = work.scores + r * kPagePositions;
    const int64_t shared = seen(item, group, r);
    add_values<T>(values, weights, work.rescale + r, 0, shared, ahead, out);
    const float one = 1;
    for (int t = 1; t < T; t++)
      if (const int64_t count = seen(item, group, r + t); count > shared)
        add_values<1>(values, weights + t * kPagePositions, &one, shared, count, 0, out + t);
  }

  void merge(const Item& item, int64_t begin, const RowStates& later, const RowStates& total) {
    for (int64_t r = 0; r < rows(item); r++)
      if (position(item, r) >= begin) merge_row(later, total, r);
  }

  void finish(const Item& item, const RowStates& total) {
    for (int64_t r = 0; r < rows(item); r++)
      divide_row(total.row(r), total.sum[r], layout_.head_dim, out_ + query_offset(item, r));
  }

  const PageShape& shape_;
  PageLayout layout_;
  std::span<const uint8_t* const> pages_;
  int64_t first_, n_;
  const float* q_;
  int64_t n_head_, queries_per_head_, tokens_per_item_;
  float scale_;
  float* out_;
  ThreadPool& pool_;
  Scratch& scratch_;
  int64_t work_floats_ = 0;
  float* work_ = nullptr;  // of all workers
};

void attention(const PageShape& shape, std::span<const uint8_t* const> pages,
               int64_t first_position, int64_t n, const float* q, int64_t n_head, float scale,
               float* out, ThreadPool& pool, Scratch& scratch) {
  AttentionCall(shape, pages, first_position, n, q, n_head, scale, out, pool, scratch).run();
}

}  // namespace meadow::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
