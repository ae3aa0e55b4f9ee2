#include "cases.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>

#include "base/check.h"
#include "kernels/attention.h"
#include "kernels/matmul.h"
#include "kernels/test_data.h"
#include "order_free/order_free.h"

namespace meadow::bench {
namespace {

using kernels::Matrix;
using kernels::PageShape;
using kernels::test::Values;

// What a number of threads works with.
struct Crew {
  explicit Crew(int threads) : pool(threads) {}
  ThreadPool pool;
  kernels::Scratch scratch;
};
using Crews = std::map<int, std::shared_ptr<Crew>>;

Crews crews(const std::vector<int>& threads) {
  Crews out;
  for (int t : threads) out[t] = std::make_shared<Crew>(t);
  return out;
}

// 64-byte aligned memory, each byte of it written.
class Memory {
 public:
  explicit Memory(size_t bytes) : bytes_(bytes + 64) {}
  uint8_t* data() {
    const auto at = reinterpret_cast<uintptr_t>(bytes_.data());
    return bytes_.data() + (64 - at % 64) % 64;
  }

 private:
  std::vector<uint8_t> bytes_;
};

// Matrices of one type, used in turn.
struct Weights {
  Weights(DType type, const ProductShape& shape, int64_t cycle_bytes) {
    Rng rng(1);
    const int64_t bytes = row_bytes(type, shape.k) * shape.m, step = (bytes + 8191) / 4096 * 4096;
    const int64_t count = std::max<int64_t>(1, (cycle_bytes + bytes - 1) / bytes);
    memory = std::make_unique<Memory>(static_cast<size_t>(count * step));
    // A few rows again and again: how values are spread does not change the speed.
    const int64_t rows = std::min<int64_t>(shape.m, 32);
    const auto some = kernels::test::weights(rng, type, shape.k, rows, Values::kOrdinary);
    for (int64_t i = 0; i < count; i++) {
      uint8_t* data = memory->data() + i * step;
      for (int64_t at = 0; at < bytes; at += static_cast<int64_t>(some.bytes.size()))
        std::memcpy(data + at, some.bytes.data(),
                    std::min(some.bytes.size(), static_cast<size_t>(bytes - at)));
      matrices.push_back({type, data, shape.k, shape.m});
    }
  }
  const Matrix& next() { return matrices[turn++ % matrices.size()]; }

  std::unique_ptr<Memory> memory;
  std::vector<Matrix> matrices;
  size_t turn = 0;
};

struct Activations {
  std::vector<float> x, y;
};

Case product_case(const std::shared_ptr<Weights>& weights, const std::shared_ptr<Activations>& io,
                  int64_t n, int threads, const std::shared_ptr<Crew>& crew) {
  const Matrix& w = weights->matrices.front();
  Case c;
  c.family = "matmul";
  c.name = info(w.type).name;
  c.size = n;
  c.threads = threads;
  c.unit = unit_of(w.type);
  c.gigabytes = static_cast<double>(row_bytes(w.type, w.k) * w.m) / 1e9;
  c.operations = 2.0 * static_cast<double>(w.k * w.m * n) / 1e9;
  c.ours = [=] {
    return seconds_of([&] {
      kernels::matmul(weights->next(), io->x.data(), n, io->y.data(), crew->pool, crew->scratch);
    });
  };
  if (const auto product = order_free::product(w.type, n); product != nullptr)
    c.order_free = [=] {
      return seconds_of(
          [&] { product(weights->next(), io->x.data(), n, io->y.data(), crew->pool); });
    };
  return c;
}

// Caches of one shape and depth, used in turn.
struct Caches {
  Caches(const PageShape& shape, int64_t depth, int64_t cycle_bytes) {
    const int64_t n_pages = (depth + kernels::kPagePositions - 1) / kernels::kPagePositions;
    const auto step = (static_cast<int64_t>(shape.bytes()) + 63) / 64 * 64;
    const int64_t count = std::max<int64_t>(1, cycle_bytes / (n_pages * step));
    memory = std::make_unique<Memory>(static_cast<size_t>(count * n_pages * step));
    Rng rng(2);
    const int64_t positions = n_pages * kernels::kPagePositions;
    const auto kv = kernels::test::floats(rng, shape.head_dim * shape.n_head_kv * 64);
    for (int64_t i = 0; i < count; i++) {
      std::vector<uint8_t*> pages;
      for (int64_t p = 0; p < n_pages; p++)
        pages.push_back(memory->data() + (i * n_pages + p) * step);
      for (int64_t at = 0; at < positions; at += 64)
        MEADOW_CHECK(kernels::store_kv(shape, pages, at, 64, kv.data(), kv.data()));
      caches.emplace_back(pages.begin(), pages.end());
    }
  }
  const std::vector<const uint8_t*>& next() { return caches[turn++ % caches.size()]; }

  std::unique_ptr<Memory> memory;
  std::vector<std::vector<const uint8_t*>> caches;
  size_t turn = 0;
};

// The same for the order-free form: f16, a whole number of its blocks.
struct FreeCaches {
  FreeCaches(const PageShape& shape, int64_t depth, int64_t cycle_bytes) {
    const int64_t positions = (depth + 255) / 256 * 256;
    const int64_t values = positions * shape.head_dim * shape.n_head_kv;
    const int64_t count = std::max<int64_t>(1, cycle_bytes / (4 * values));
    Rng rng(2);
    const auto some = kernels::test::floats(rng, 4096);
    memory.resize(static_cast<size_t>(2 * values * count));
    for (size_t i = 0; i < memory.size(); i++) memory[i] = float_to_half(some[i % some.size()]);
    for (int64_t i = 0; i < count; i++) {
      const uint16_t* at = memory.data() + 2 * values * i;
      caches.push_back({at, at + values, positions, shape.head_dim, shape.n_head_kv});
    }
  }
  const order_free::Cache& next() { return caches[turn++ % caches.size()]; }

  std::vector<uint16_t> memory;
  std::vector<order_free::Cache> caches;
  size_t turn = 0;
};

Case attention_case(const AttentionShape& shape, const PageShape& pages, int64_t depth, int64_t n,
                    const std::shared_ptr<Caches>& caches,
                    const std::shared_ptr<FreeCaches>& free_caches,
                    const std::shared_ptr<Activations>& io, int threads,
                    const std::shared_ptr<Crew>& crew) {
  Case c;
  c.family = n == 1 ? "decode" : "prefill";
  c.name = info(pages.type).name;
  c.size = depth;
  c.threads = threads;
  const int64_t first = depth - n;
  const int64_t seen = n * first + n * (n + 1) / 2;  // positions, summed over queries
  c.gigabytes = static_cast<double>(depth) * static_cast<double>(pages.bytes()) /
                kernels::kPagePositions / 1e9;
  c.operations = 4.0 * static_cast<double>(shape.head_dim * shape.n_head * seen) / 1e9;
  c.ours = [=] {
    return seconds_of([&] {
      kernels::attention(pages, caches->next(), first, n, io->x.data(), shape.n_head, 0.125f,
                         io->y.data(), crew->pool, crew->scratch);
    });
  };
  if (free_caches != nullptr)
    c.order_free = [=] {
      return seconds_of([&] {
        order_free::attention(free_caches->next(), first, n, io->x.data(), shape.n_head, 0.125f,
                              io->y.data(), crew->pool);
      });
    };
  return c;
}

}  // namespace

std::vector<Case> product_cases(const ProductShape& shape, const std::vector<DType>& types,
                                const std::vector<int64_t>& tokens, const std::vector<int>& threads,
                                int64_t cycle_bytes) {
  const Crews with = crews(threads);
  const int64_t most = *std::max_element(tokens.begin(), tokens.end());
  Rng rng(3);
  const auto io = std::make_shared<Activations>(
      Activations{kernels::test::floats(rng, shape.k * most),
                  std::vector<float>(static_cast<size_t>(shape.m * most))});
  std::vector<Case> cases;
  for (DType type : types) {
    const auto weights = std::make_shared<Weights>(type, shape, cycle_bytes);
    for (int t : threads)
      for (int64_t n : tokens) cases.push_back(product_case(weights, io, n, t, with.at(t)));
  }
  return cases;
}

std::vector<Case> attention_cases(const AttentionShape& shape, const std::vector<DType>& types,
                                  const std::vector<int64_t>& depths, int64_t prefill,
                                  const std::vector<int>& threads, int64_t cycle_bytes) {
  const Crews with = crews(threads);
  Rng rng(4);
  const int64_t width = shape.head_dim * shape.n_head;
  const auto io = std::make_shared<Activations>(
      Activations{kernels::test::floats(rng, width * prefill),
                  std::vector<float>(static_cast<size_t>(width * prefill))});
  std::vector<Case> cases;
  for (int64_t depth : depths)
    for (DType type : types) {
      const PageShape pages{type, shape.head_dim, shape.n_head_kv};
      const auto caches = std::make_shared<Caches>(pages, depth, cycle_bytes);
      const bool has_free =
          type == DType::kF16 && shape.head_dim % 32 == 0 && order_free::has_attention();
      const auto free_caches =
          has_free ? std::make_shared<FreeCaches>(pages, depth, cycle_bytes) : nullptr;
      for (int t : threads)
        for (int64_t n : {int64_t{1}, std::min(prefill, depth)})
          cases.push_back(
              attention_case(shape, pages, depth, n, caches, free_caches, io, t, with.at(t)));
    }
  return cases;
}

}  // namespace meadow::bench
