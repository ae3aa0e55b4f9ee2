#include "compute/cpu_ops.h"

#include <cfenv>
#include <cmath>
#include <cstring>
#include <mutex>
#include <new>

#include "base/check.h"
#include "kernels/dequantise.h"

namespace meadow::compute {
namespace {

constexpr std::align_val_t kPageAlignment{64};

kernels::PageShape page_shape(const CacheShape& shape) {
  return {shape.type, shape.head_dim, shape.n_head_kv};
}

kernels::RopeStyle rope_style(RopeStyle style) {
  return style == RopeStyle::kNeighbours ? kernels::RopeStyle::kNeighbours
                                         : kernels::RopeStyle::kHalves;
}

// A library built for speed may have changed these for the whole process when it was loaded; every
// result would then be another one.
bool arithmetic_is_default() {
  volatile float least = 0x1p-126f, half = 0.5f;
  const volatile float subnormal = least * half;
  return std::fegetround() == FE_TONEAREST && subnormal != 0.0f && subnormal * 2.0f == least;
}

int64_t columns_of(std::span<const Part> parts) {
  int64_t sum = 0;
  for (const Part& part : parts) sum += part.columns;
  return sum;
}

bool pages_suffice(const Part& part) {
  return part.columns > 0 && part.first_position >= 0 &&
         part.first_position + part.columns <=
             static_cast<int64_t>(part.pages.size()) * kernels::kPagePositions;
}

}  // namespace

CpuOps::CpuOps(int threads) : CpuOps(std::make_shared<ThreadPool>(threads)) {}

CpuOps::CpuOps(std::shared_ptr<ThreadPool> crew) : crew_(std::move(crew)) {
  std::fesetenv(FE_DFL_ENV);
  MEADOW_CHECK(arithmetic_is_default());
}

CpuOps::~CpuOps() = default;

float* CpuOps::at(Tensor t) {
  MEADOW_CHECK(t.id >= 0 && t.id < used_);
  return buffers_[static_cast<size_t>(t.id)].data();
}

const kernels::Matrix& CpuOps::at(Weight w) const {
  MEADOW_CHECK(w.id >= 0 && static_cast<size_t>(w.id) < weights_.size());
  return weights_[static_cast<size_t>(w.id)];
}

const float* CpuOps::values(Weight vector) const {
  const kernels::Matrix& m = at(vector);
  MEADOW_CHECK(m.type == DType::kF32 && m.m == 1);
  return reinterpret_cast<const float*>(m.data);  // from vector(), which keeps floats
}

Result<Weight> CpuOps::matrix(std::string_view name, DType type, ByteView bytes, int64_t k,
                              int64_t m) {
  const int64_t block = info(type).block_values;
  if (k <= 0 || m <= 0 || k % block != 0)
    return fail(Code::kCorrupt, "{}: rows of {} values do not fill blocks of {}", name, k, block);
  const auto row = static_cast<uint64_t>(row_bytes(type, k));
  if (bytes.size() / row != static_cast<uint64_t>(m) || bytes.size() % row != 0)
    return fail(Code::kCorrupt, "{}: expected {} rows of {} bytes, got {} bytes", name, m, row,
                bytes.size());
  const kernels::Matrix matrix{type, bytes.data(), k, m};
  if (auto ok = kernels::check_weights(matrix, *crew_); !ok) return fail(ok.error().within(name));
  weights_.push_back(matrix);
  return Weight{static_cast<int32_t>(weights_.size()) - 1, k, m};
}

Result<Weight> CpuOps::vector(std::string_view name, std::span<const float> values) {
  if (!kernels::all_finite(values.data(), static_cast<int64_t>(values.size())))
    return fail(Code::kCorrupt, "{}: a value is not finite", name);
  vectors_.emplace_back(values.begin(), values.end());
  const auto k = static_cast<int64_t>(values.size());
  weights_.push_back({DType::kF32, reinterpret_cast<const uint8_t*>(vectors_.back().data()), k, 1});
  return Weight{static_cast<int32_t>(weights_.size()) - 1, k, 1};
}

Result<Page> CpuOps::new_page(const CacheShape& shape) {
  const size_t bytes = page_shape(shape).bytes();
  void* memory = ::operator new(bytes, kPageAlignment, std::nothrow);
  if (memory == nullptr)
    return fail(Code::kResourceExhausted, "no memory for a cache page of {} bytes", bytes);
  std::memset(memory, 0, bytes);
  return Page{memory};
}

void CpuOps::free_page(Page page) { ::operator delete(page.memory, kPageAlignment); }

uint64_t CpuOps::page_bytes(const CacheShape& shape) const { return page_shape(shape).bytes(); }

Tensor CpuOps::make(int64_t d, int64_t n) {
  if (static_cast<size_t>(used_) == buffers_.size()) buffers_.emplace_back();
  std::vector<float>& buffer = buffers_[static_cast<size_t>(used_)];
  const auto count = static_cast<size_t>(d * n);
  if (buffer.size() < count) buffer.resize(count);
  return Tensor{used_++, d, n};
}

void CpuOps::reset() {
  used_ = 0;
  failures_.clear();
}

void CpuOps::write(Tensor to, int64_t first_column, std::span<const float> values) {
  MEADOW_CHECK(first_column >= 0 &&
               values.size() <= static_cast<size_t>(to.d * (to.n - first_column)));
  std::copy(values.begin(), values.end(), at(to) + first_column * to.d);
}

Result<void> CpuOps::read(Tensor from, int64_t first_column, std::span<float> out) {
  MEADOW_CHECK(first_column >= 0 &&
               out.size() <= static_cast<size_t>(from.d * (from.n - first_column)));
  const float* values = at(from) + first_column * from.d;
  std::copy(values, values + out.size(), out.begin());
  return {};
}

Result<void> CpuOps::check(size_t index) {
  if (index < failures_.size() && failures_[index]) return fail(*failures_[index]);
  return {};
}

void CpuOps::get_rows(Weight table, std::span<const int32_t> ids, Tensor out) {
  const kernels::Matrix& m = at(table);
  MEADOW_CHECK(out.d == m.k && out.n == static_cast<int64_t>(ids.size()));
  float* to = at(out);
  for (size_t i = 0; i < ids.size(); i++) {
    MEADOW_CHECK(ids[i] >= 0 && ids[i] < m.m);
    kernels::dequantise_row(m.type, m.data + ids[i] * row_bytes(m.type, m.k), m.k,
                            to + static_cast<int64_t>(i) * m.k);
  }
}

void CpuOps::matmul(Weight w, Tensor x, Tensor y) {
  MEADOW_CHECK(w.k == x.d && w.m == y.d && x.n == y.n && x.id != y.id);
  kernels::matmul(at(w), at(x), x.n, at(y), *crew_, scratch_);
}

void CpuOps::matmul_group(std::span<const Weight> weights, Tensor x, std::span<const Tensor> out) {
  MEADOW_CHECK(weights.size() == out.size());
  products_.clear();
  for (size_t i = 0; i < weights.size(); i++) {
    MEADOW_CHECK(weights[i].k == x.d && weights[i].m == out[i].d && x.n == out[i].n &&
                 x.id != out[i].id);
    products_.push_back({at(weights[i]), at(out[i])});
  }
  kernels::matmul(products_, at(x), x.n, *crew_, scratch_);
}

void CpuOps::over_columns(int64_t n, int64_t values_each,
                          FunctionRef<void(int64_t begin, int64_t end)> body) {
  constexpr int64_t kWorthIt = 32768;  // values: ten microseconds of work
  if (n * values_each < kWorthIt) return body(0, n);
  const int64_t chunk = std::max<int64_t>(kWorthIt / 4 / values_each, 1);
  crew_->run(static_cast<size_t>(n), static_cast<size_t>(chunk),
             [&](size_t begin, size_t end, int) {
               body(static_cast<int64_t>(begin), static_cast<int64_t>(end));
             });
}

void CpuOps::add_bias(Tensor x, Weight bias) {
  MEADOW_CHECK(bias.k == x.d);
  over_columns(x.n, x.d, [&, to = at(x)](int64_t begin, int64_t end) {
    kernels::add_rows(to + begin * x.d, values(bias), x.d, end - begin);
  });
}

void CpuOps::add(Tensor a, Tensor b, Tensor out) {
  MEADOW_CHECK(a.d == b.d && a.n == b.n && a.d == out.d && a.n == out.n);
  over_columns(a.n, a.d, [d = a.d, x = at(a), y = at(b), to = at(out)](int64_t begin, int64_t end) {
    kernels::add(x + begin * d, y + begin * d, (end - begin) * d, to + begin * d);
  });
}

void CpuOps::rms_norm(Tensor x, Weight weight, float epsilon, Tensor y) {
  MEADOW_CHECK(x.d == y.d && x.n == y.n && x.d % weight.k == 0);
  const int64_t groups = x.d / weight.k * x.n, k = weight.k;
  over_columns(groups, k, [&, from = at(x), to = at(y)](int64_t begin, int64_t end) {
    kernels::rms_norm(from + begin * k, values(weight), epsilon, k, end - begin, to + begin * k);
  });
}

void CpuOps::silu_mul(Tensor gate, Tensor up, Tensor out) {
  MEADOW_CHECK(gate.d == up.d && gate.n == up.n && gate.d == out.d && gate.n == out.n);
  over_columns(gate.n, gate.d,
               [d = gate.d, g = at(gate), u = at(up), to = at(out)](int64_t begin, int64_t end) {
                 kernels::silu_mul(g + begin * d, u + begin * d, (end - begin) * d, to + begin * d);
               });
}

const kernels::RopeTable& CpuOps::rope_table(const Rope& rope, std::span<const Part> parts) {
  positions_.clear();
  for (const Part& part : parts)
    for (int64_t i = 0; i < part.columns; i++) positions_.push_back(part.first_position + i);
  const int32_t id = rope.inverse_frequency.id;
  if (!rope_ || rope_->frequencies != id || rope_->positions != positions_) {
    const std::span<const float> frequencies(values(rope.inverse_frequency),
                                             static_cast<size_t>(rope.n_rot / 2));
    rope_.emplace(id, positions_, kernels::RopeTable(positions_, frequencies));
  }
  return rope_->table;
}

void CpuOps::rope(Tensor x, const Rope& rope, std::span<const Part> parts) {
  MEADOW_CHECK(x.d % rope.head_dim == 0 && rope.inverse_frequency.k == rope.n_rot / 2);
  MEADOW_CHECK(columns_of(parts) == x.n);
  kernels::rope(at(x), rope.head_dim, x.d / rope.head_dim, rope_table(rope, parts),
                rope_style(rope.style));
}

// Of several values that do not fit the cache the earliest is told.
Result<void> CpuOps::store_part(const CacheShape& shape, const Part& part, const float* k,
                                const float* v) {
  MEADOW_CHECK(pages_suffice(part));
  pages_.clear();
  for (const Page& page : part.pages) pages_.push_back(static_cast<uint8_t*>(page.memory));
  const int64_t width = shape.head_dim * shape.n_head_kv;
  std::mutex mutex;
  int64_t failed_at = part.columns;
  Result<void> result;
  over_columns(part.columns, 2 * width, [&](int64_t begin, int64_t end) {
    auto stored = kernels::store_kv(page_shape(shape), pages_, part.first_position + begin,
                                    end - begin, k + begin * width, v + begin * width);
    if (stored) return;
    std::lock_guard lock(mutex);
    if (begin >= failed_at) return;
    failed_at = begin;
    result = std::move(stored);
  });
  return result;
}

void CpuOps::store(const CacheShape& shape, std::span<const Part> parts, Tensor k, Tensor v) {
  const int64_t width = shape.head_dim * shape.n_head_kv;
  MEADOW_CHECK(k.d == width && v.d == width && k.n == v.n && columns_of(parts) == k.n);
  const float *keys = at(k), *values = at(v);
  for (size_t i = 0; i < parts.size(); i++) {
    if (check(i)) {
      if (auto stored = store_part(shape, parts[i], keys, values); !stored) {
        failures_.resize(parts.size());
        failures_[i] = stored.error();
      }
    }
    keys += width * parts[i].columns;
    values += width * parts[i].columns;
  }
}

void CpuOps::attention(const CacheShape& shape, std::span<const Part> parts, Tensor q,
                       int64_t n_head, float scale, Tensor out) {
  MEADOW_CHECK(q.d == shape.head_dim * n_head && q.d == out.d && q.n == out.n);
  MEADOW_CHECK(columns_of(parts) == q.n);
  pages_.clear();
  for (const Part& part : parts)
    for (const Page& page : part.pages) pages_.push_back(static_cast<uint8_t*>(page.memory));
  attention_parts_.clear();
  const uint8_t* const* pages = pages_.data();
  for (const Part& part : parts) {
    MEADOW_CHECK(pages_suffice(part));
    attention_parts_.push_back({part.first_position, part.columns, {pages, part.pages.size()}});
    pages += part.pages.size();
  }
  kernels::attention(page_shape(shape), attention_parts_, at(q), n_head, scale, at(out), *crew_,
                     scratch_);
}

}  // namespace meadow::compute
