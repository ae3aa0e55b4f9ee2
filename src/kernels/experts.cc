// The places that chose an expert are gathered into one small batch, and the ordinary product does
// the rest on a thread of its own: (expert, some rows) are the items that the pool shares out. With
// few tokens that is one wake-up for all experts; with many, each matrix is read once.
#include "kernels/experts.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/float_environment.h"
#include "kernels/table.h"

namespace meadow::kernels {
namespace {

constexpr int64_t kSliceUnit = 64;  // rows; every kernel's groups divide it
constexpr int64_t kItemsPerThread = 4;

// Rows of one expert for all places that chose it.
struct Item {
  int32_t expert;
  int64_t first_place, places;  // in Choice::places
  int64_t first_row, rows;
};

class ExpertsProduct {
 public:
  ExpertsProduct(const Experts& w, std::span<const int32_t> ids, int64_t places_per_x,
                 const float* x, float* y, Scratch& scratch)
      : w_(w), ids_(ids), places_per_x_(places_per_x), x_(x), y_(y), scratch_(scratch) {}

  void run(ThreadPool& pool) {
    sort_places();
    for (int i = 0; i < pool.size(); i++) scratch_.of_worker(i);  // made before the threads run
    const int64_t items = make_items(pool.size());
    run_ieee(pool, items, 1, [this](int64_t begin, int64_t end, int worker) {
      for (int64_t i = begin; i < end; i++) multiply(items_[i], scratch_.of_worker(worker));
    });
  }

 private:
  int64_t count() const { return static_cast<int64_t>(ids_.size()); }

  // places_: all places, those of expert e from first_[e] up to first_[e + 1], ascending.
  void sort_places() {
    first_ = scratch_.get<int32_t>(Scratch::kExpertLists,
                                   static_cast<size_t>(w_.n_expert + 1 + count()));
    places_ = first_ + w_.n_expert + 1;
    std::fill_n(first_, w_.n_expert + 1, 0);
    for (int32_t id : ids_) {
      MEADOW_CHECK(id >= 0 && id < w_.n_expert);
      first_[id + 1]++;
    }
    for (int64_t e = 0; e < w_.n_expert; e++) first_[e + 1] += first_[e];
    for (int64_t p = 0; p < count(); p++)
      places_[first_[ids_[static_cast<size_t>(p)]]++] = static_cast<int32_t>(p);
    for (int64_t e = w_.n_expert; e > 0; e--) first_[e] = first_[e - 1];
    first_[0] = 0;
  }

  // Experts with more places are cut into more slices. Slices are few, because each rounds its
  // activations again.
  int64_t make_items(int threads) {
    const int64_t most_slices = (w_.m + kSliceUnit - 1) / kSliceUnit;
    const int64_t wanted = threads == 1 ? 1 : threads * kItemsPerThread;
    items_ = scratch_.get<Item>(Scratch::kExpertItems,
                                static_cast<size_t>(std::min(w_.n_expert, count()) + wanted));
    int64_t made = 0;
    for (int32_t e = 0; e < w_.n_expert; e++) {
      const int64_t places = first_[e + 1] - first_[e];
      if (places == 0) continue;
      const int64_t slices = std::clamp<int64_t>(places * wanted / count(), 1, most_slices);
      const int64_t rows = (most_slices + slices - 1) / slices * kSliceUnit;
      for (int64_t r = 0; r < w_.m; r += rows)
        items_[made++] = {e, first_[e], places, r, std::min(rows, w_.m - r)};
    }
    return made;
  }

  const float* input(int32_t place) const { return x_ + place / places_per_x_ * w_.k; }

  void multiply(const Item& item, Scratch& scratch) const {
    const int64_t first_row = item.expert * w_.m + item.first_row;
    const Matrix rows{w_.type, w_.data + first_row * row_bytes(w_.type, w_.k), w_.k, item.rows};
    const int32_t* places = places_ + item.first_place;
    ThreadPool alone(1);
    if (item.places == 1) {
      matmul(rows, input(places[0]), 1, y_ + places[0] * w_.m + item.first_row, alone, scratch);
      return;
    }
    const int64_t n = item.places;
    float* x = scratch.get<float>(Scratch::kExpertInputs, static_cast<size_t>(n * w_.k));
    float* y = scratch.get<float>(Scratch::kExpertOutputs, static_cast<size_t>(n * item.rows));
    for (int64_t i = 0; i < n; i++) std::copy_n(input(places[i]), w_.k, x + i * w_.k);
    matmul(rows, x, n, y, alone, scratch);
    for (int64_t i = 0; i < n; i++)
      std::copy_n(y + i * item.rows, item.rows, y_ + places[i] * w_.m + item.first_row);
  }

  const Experts& w_;
  std::span<const int32_t> ids_;
  int64_t places_per_x_;
  const float* x_;
  float* y_;
  Scratch& scratch_;
  int32_t* first_ = nullptr;   // [n_expert + 1]
  int32_t* places_ = nullptr;  // [places]
  Item* items_ = nullptr;
};

}  // namespace

void matmul_experts(const Experts& w, std::span<const int32_t> ids, int64_t n_used, const float* x,
                    int64_t x_per_token, float* y, ThreadPool& pool, Scratch& scratch) {
  MEADOW_CHECK(w.k >= 0 && w.m >= 0 && w.k % info(w.type).block_values == 0 && n_used > 0);
  MEADOW_CHECK(ids.size() % static_cast<size_t>(n_used) == 0);
  MEADOW_CHECK(x_per_token == 1 || x_per_token == n_used);
  if (w.m == 0 || ids.empty()) return;
  ExpertsProduct(w, ids, n_used / x_per_token, x, y, scratch).run(pool);
}

void sum_experts(const float* y, const float* weights, int64_t m, int64_t n_used, int64_t n,
                 float* out) {
  MEADOW_CHECK(m >= 0 && n_used >= 0 && n >= 0);
  active_table().sum_experts(y, weights, m, n_used, n, out);
}

}  // namespace meadow::kernels
