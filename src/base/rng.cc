#include "base/rng.h"

#include <openssl/rand.h>

#include <bit>
#include <cstring>

#include "base/check.h"

namespace meadow {

Rng::Rng(uint64_t seed) {
  for (uint64_t& word : s_) {
    uint64_t z = (seed += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    word = z ^ (z >> 31);
  }
}

uint64_t Rng::next() {
  const uint64_t result = std::rotl(s_[1] * 5, 7) * 9;
  const uint64_t t = s_[1] << 17;
  s_[2] ^= s_[0];
  s_[3] ^= s_[1];
  s_[1] ^= s_[2];
  s_[0] ^= s_[3];
  s_[2] ^= t;
  s_[3] = std::rotl(s_[3], 45);
  return result;
}

double Rng::uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

uint64_t Rng::below(uint64_t bound) {
  MEADOW_CHECK(bound > 0);
  const uint64_t threshold = -bound % bound;  // numbers below it would be counted twice
  for (;;) {
    const uint64_t r = next();
    if (r >= threshold) return r % bound;
  }
}

void Rng::fill(std::span<uint8_t> out) {
  for (size_t i = 0; i < out.size(); i += 8) {
    const uint64_t r = next();
    std::memcpy(out.data() + i, &r, std::min<size_t>(8, out.size() - i));
  }
}

void random_bytes(std::span<uint8_t> out) {
  MEADOW_CHECK(RAND_bytes(out.data(), static_cast<int>(out.size())) == 1);
}

uint64_t random_seed() {
  uint64_t seed;
  random_bytes({reinterpret_cast<uint8_t*>(&seed), sizeof seed});
  return seed;
}

}  // namespace meadow
