// Randomness is an argument. Rng is a seeded, portable generator (same numbers on every machine);
// random_seed() and random_bytes() ask the operating system.
// Thread rule: an Rng belongs to one thread; the free functions may be called from any.
#pragma once
#include <cstdint>
#include <span>

namespace meadow {

// xoshiro256** 1.0 (Blackman and Vigna, 2018), seeded by splitmix64.
class Rng {
 public:
  explicit Rng(uint64_t seed);

  uint64_t next();
  // Uniform in [0, 1), 53 bits.
  double uniform();
  // Uniform in [0, bound), bound > 0, without modulo bias.
  uint64_t below(uint64_t bound);
  void fill(std::span<uint8_t> out);

  // What <algorithm>'s shuffles ask of a generator.
  using result_type = uint64_t;
  static constexpr uint64_t min() { return 0; }
  static constexpr uint64_t max() { return UINT64_MAX; }
  uint64_t operator()() { return next(); }

 private:
  uint64_t s_[4];
};

// From the operating system's generator; good for keys. Aborts if there is none.
void random_bytes(std::span<uint8_t> out);
uint64_t random_seed();

}  // namespace meadow
