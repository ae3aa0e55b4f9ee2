// The operations port on this machine's processor, over kernels/: at once, in f32, with the one
// numerics of docs/numerics.md.
// Thread rule: as Ops, one caller at a time; the crew of threads sleeps between operations. Owns
// activations and vectors; borrows the bytes of matrices; may share its crew.
#pragma once
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/thread_pool.h"
#include "compute/ops.h"
#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/matmul.h"
#include "kernels/scratch.h"

namespace meadow::compute {

class CpuOps final : public Ops {
 public:
  // `threads` counts the caller; at least 1.
  explicit CpuOps(int threads);
  // With a crew that other users have too, all driven by one thread.
  explicit CpuOps(std::shared_ptr<ThreadPool> crew);
  ~CpuOps() override;

  // As ThreadPool::pin().
  Result<void> pin_threads() { return crew_->pin(); }
  const std::shared_ptr<ThreadPool>& crew() const { return crew_; }

  Result<Weight> matrix(std::string_view name, DType type, ByteView bytes, int64_t k,
                        int64_t m) override;
  Result<Weight> vector(std::string_view name, std::span<const float> values) override;
  Result<Page> new_page(const CacheShape& shape) override;
  void free_page(Page page) override;
  uint64_t page_bytes(const CacheShape& shape) const override;
  Tensor make(int64_t d, int64_t n) override;
  void reset() override;
  void write(Tensor to, int64_t first_column, std::span<const float> values) override;
  Result<void> read(Tensor from, int64_t first_column, std::span<float> out) override;
  Result<void> check(size_t index) override;
  void get_rows(Weight table, std::span<const int32_t> ids, Tensor out) override;
  void matmul(Weight w, Tensor x, Tensor y) override;
  void matmul_group(std::span<const Weight> weights, Tensor x,
                    std::span<const Tensor> out) override;
  void add_bias(Tensor x, Weight bias) override;
  void add(Tensor a, Tensor b, Tensor out) override;
  void rms_norm(Tensor x, Weight weight, float epsilon, Tensor y) override;
  void silu_mul(Tensor gate, Tensor up, Tensor out) override;
  void rope(Tensor x, const Rope& rope, std::span<const Part> parts) override;
  void store(const CacheShape& shape, std::span<const Part> parts, Tensor k, Tensor v) override;
  void attention(const CacheShape& shape, std::span<const Part> parts, Tensor q, int64_t n_head,
                 float scale, Tensor out) override;

 private:
  // body(begin, end) over n columns, by all threads where that is worth a wake-up.
  void over_columns(int64_t n, int64_t values_each,
                    FunctionRef<void(int64_t begin, int64_t end)> body);
  Result<void> store_part(const CacheShape& shape, const Part& part, const float* k,
                          const float* v);
  float* at(Tensor t);
  const kernels::Matrix& at(Weight w) const;
  const float* values(Weight vector) const;
  const kernels::RopeTable& rope_table(const Rope& rope, std::span<const Part> parts);

  const std::shared_ptr<ThreadPool> crew_;
  kernels::Scratch scratch_;
  std::vector<kernels::Matrix> weights_;
  std::deque<std::vector<float>> vectors_;   // what weights_ made by vector() point into
  std::vector<std::vector<float>> buffers_;  // by tensor id; the first used_ are alive
  int32_t used_ = 0;
  // By part; empty while none has failed.
  std::vector<std::optional<Error>> failures_;
  // The sines and cosines last used: the same for every block of a span.
  struct CachedRope {
    int32_t frequencies;
    std::vector<int64_t> positions;
    kernels::RopeTable table;
  };
  std::optional<CachedRope> rope_;
  // Of the call under way.
  std::vector<int64_t> positions_;
  std::vector<uint8_t*> pages_;
  std::vector<kernels::AttentionPart> attention_parts_;
  std::vector<kernels::Product> products_;
};

}  // namespace meadow::compute
