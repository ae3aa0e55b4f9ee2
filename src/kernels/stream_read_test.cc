#include "kernels/stream_read.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace meadow::kernels {
namespace {

TEST(StreamRead, ReadsEveryWordOnce) {
  Rng rng(1);
  Bytes memory((size_t{9} << 20) + 100);
  rng.fill(memory);
  uint64_t expected = 0;
  for (size_t i = 0; i + 8 <= memory.size() / 256 * 256; i += 8) {
    uint64_t word;
    std::memcpy(&word, memory.data() + i, 8);
    expected ^= word;
  }
  for (int threads : {1, 3}) {
    ThreadPool pool(threads);
    for (size_t ahead : {0, 1024, 8192}) EXPECT_EQ(stream_read(memory, ahead, pool), expected);
    EXPECT_EQ(stream_read({}, 0, pool), 0u);
  }
}

}  // namespace
}  // namespace meadow::kernels
