// Damaged and hostile files: refused with file, offset and reason, without a crash and without an
// allocation larger than the file justifies.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>

#include "base/rng.h"
#include "format/exercise.h"
#include "format/gguf_reader.h"
#include "format/model_file.h"
#include "format/test_model.h"

namespace {
std::atomic<size_t> largest_allocation{0};
}  // namespace

// Every allocation of this program passes here, so that a test can ask for the largest.
[[gnu::noinline]] void* operator new(size_t size) {
  size_t seen = largest_allocation.load(std::memory_order_relaxed);
  while (size > seen && !largest_allocation.compare_exchange_weak(seen, size)) {
  }
  if (void* at = std::malloc(size)) return at;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* at) noexcept { std::free(at); }
[[gnu::noinline]] void operator delete(void* at, size_t) noexcept { std::free(at); }

namespace meadow::format {
namespace {

using testing::HasSubstr;

Error error_of(Bytes bytes) {
  const auto opened = ModelFile::open(std::make_shared<MemorySource>(std::move(bytes), "bad.gguf"));
  return opened ? Error{Code::kInternal, "it opened"} : opened.error();
}

// A small file with every kind of value and two tensors.
GgufWriter small_file(uint32_t version = 3) {
  GgufWriter writer(version, 16);
  writer.add_string("general.architecture", "llama");
  writer.add_u64("u64", 7);
  writer.add_f32("f32", 0.5f);
  writer.add_bool("bool", true);
  writer.add_strings("strings", std::vector<std::string>{"one", "two"});
  writer.add_i32s("i32s", std::vector<int32_t>{1, 2, 3});
  Bytes nested;  // [[1], [2]] of u8
  append(nested, static_cast<uint32_t>(ValueType::kArray));
  append(nested, uint64_t{2});
  for (uint8_t value : {1, 2}) {
    append(nested, static_cast<uint32_t>(ValueType::kU8));
    append(nested, uint64_t{1});
    append(nested, value);
  }
  writer.add_raw("nested", ValueType::kArray, nested);
  const int64_t shape[] = {32, 2};
  writer.add_tensor("blk.0.a", 2, shape, Bytes(36, 1));
  writer.add_tensor("blk.1.b", 0, std::span(shape, 1), Bytes(128, 2));
  return writer;
}

TEST(HostileFile, EveryTruncationIsRefused) {
  for (const uint32_t version : {2u, 3u}) {
    const Bytes whole = small_file(version).bytes();
    ASSERT_TRUE(exercise(whole));
    for (size_t size = 0; size < whole.size(); size++) {
      const Error error =
          error_of(Bytes(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size)));
      EXPECT_EQ(error.code, Code::kCorrupt) << size;
      EXPECT_THAT(error.message, testing::StartsWith("bad.gguf: offset "));
    }
  }
}

TEST(HostileFile, EveryByteMayBeWrong) {
  const Bytes whole = small_file().bytes();
  largest_allocation = 0;
  int opened = 0;
  for (size_t at = 0; at < whole.size(); at++)
    for (const uint8_t flip : {1, 2, 3, 4, 7, 8, 16, 32, 64, 127, 128, 255}) {
      Bytes damaged = whole;
      damaged[at] ^= flip;
      opened += exercise(std::move(damaged));
    }
  EXPECT_GT(opened, 0);  // damage inside values is not structural
  EXPECT_LT(opened, static_cast<int>(whole.size()) * 12);
  EXPECT_LT(largest_allocation.load(), 32 * whole.size());
}

TEST(HostileFile, RandomDamageInManyPlaces) {
  Rng rng(11);
  const Bytes whole = test_model_bytes({.n_blocks = 1, .n_embd = 32, .n_ff = 32});
  const uint64_t head =
      ModelFile::open(std::make_shared<MemorySource>(whole)).value()->tensors()[0].offset;
  largest_allocation = 0;
  for (int round = 0; round < 1000; round++) {
    Bytes damaged = whole;
    for (uint64_t i = 0; i <= rng.below(8); i++) {
      static constexpr uint64_t kValues[] = {0,          1,          0xff,       UINT64_MAX,
                                             1ull << 63, 1ull << 32, 1ull << 20, 12};
      const uint64_t value = kValues[rng.below(std::size(kValues))];
      std::memcpy(&damaged[rng.below(head - 8)], &value, 1 + rng.below(8));
    }
    (void)exercise(std::move(damaged));
  }
  EXPECT_LT(largest_allocation.load(), 4 * whole.size());
}

TEST(HostileFile, RandomBytesAfterAMagic) {
  Rng rng(12);
  for (int round = 0; round < 1000; round++) {
    Bytes bytes = small_file().bytes();
    bytes.resize(24 + rng.below(200));
    rng.fill(std::span(bytes).subspan(24));
    (void)exercise(std::move(bytes));
  }
}

// What one field says, where, and what the reader must answer.
struct Lie {
  const char* what;
  Bytes bytes;
  Code code;
  const char* reason;
};

template <class T>
Bytes with(Bytes bytes, size_t at, T value) {
  std::memcpy(&bytes[at], &value, sizeof value);
  return bytes;
}

Bytes file_with(const std::function<void(GgufWriter&)>& fill, uint32_t version = 3) {
  GgufWriter writer(version);
  fill(writer);
  return writer.bytes();
}

Bytes file_with_tensor(uint32_t type, std::vector<int64_t> shape, size_t bytes = 64) {
  return file_with([&](GgufWriter& w) { w.add_tensor("t", type, shape, Bytes(bytes)); });
}

Bytes nested_arrays(int depth) {
  Bytes payload;
  for (int i = 0; i < depth; i++) {
    append(payload, static_cast<uint32_t>(ValueType::kArray));
    append(payload, uint64_t{1});
  }
  append(payload, static_cast<uint32_t>(ValueType::kU8));
  append(payload, uint64_t{0});
  return file_with([&](GgufWriter& w) { w.add_raw("n", ValueType::kArray, payload); });
}

// An array that claims `count` elements and has 16 bytes.
Bytes long_array(ValueType element, uint64_t count) {
  Bytes payload;
  append(payload, static_cast<uint32_t>(element));
  append(payload, count);
  append(payload, uint64_t{0});
  append(payload, uint64_t{0});
  return file_with([&](GgufWriter& w) { w.add_raw("a", ValueType::kArray, payload); });
}

Bytes alignment_of(uint32_t alignment) {
  return file_with([&](GgufWriter& w) { w.add_u32("general.alignment", alignment); });
}

std::vector<Lie> lies() {
  const Bytes good = small_file().bytes();
  const auto twice = [](GgufWriter& w) {
    w.add_u32("k", 1);
    w.add_bool("k", true);
  };
  const auto two_tensors = [](GgufWriter& w) {
    const int64_t shape[] = {8};
    w.add_tensor("t", 0, shape, Bytes(32));
    w.add_tensor("t", 0, shape, Bytes(32));
  };
  const auto overlapping = [](GgufWriter& w) {
    const int64_t shape[] = {16};
    w.add_tensor("a", 0, shape, Bytes(32));  // says 64, has 32
    w.add_tensor("b", 0, shape, Bytes(64));
  };
  return {
      {"another format", with(good, 0, uint32_t{0x04034b50}), Code::kCorrupt,
       "offset 0: not a GGUF file"},
      {"version 1", with(good, 4, uint32_t{1}), Code::kUnsupported, "offset 4: GGUF version 1;"},
      {"version 4", with(good, 4, uint32_t{4}), Code::kUnsupported,
       "GGUF version 4; versions 2 and 3"},
      {"version 0", with(good, 4, uint32_t{0}), Code::kUnsupported, "GGUF version 0"},
      {"big-endian", with(good, 4, uint32_t{3 << 24}), Code::kUnsupported,
       "a big-endian GGUF file"},
      {"2^64-1 tensors", with(good, 8, UINT64_MAX), Code::kCorrupt,
       "number of tensors is 18446744073709551615"},
      {"200,000 tensors", with(good, 8, uint64_t{200'000}), Code::kCorrupt, "but only"},
      {"2^63 entries", with(good, 16, uint64_t{1} << 63), Code::kCorrupt,
       "number of metadata entries"},
      {"60,000 entries", with(good, 16, uint64_t{60'000}), Code::kCorrupt, "offset 16: "},
      {"key of 2^64-1", with(good, 24, UINT64_MAX), Code::kCorrupt, "at most 65535"},
      {"key past the end", with(good, 24, uint64_t{60'000}), Code::kCorrupt,
       "metadata key of 60000 bytes"},
      {"empty key", file_with([](GgufWriter& w) { w.add_u32("", 1); }), Code::kCorrupt, "is empty"},
      {"key twice", file_with(twice), Code::kCorrupt, "'k' is there twice"},
      {"value type 13", file_with([](GgufWriter& w) { w.add_raw("k", ValueType{13}, {}); }),
       Code::kCorrupt, "value type 13 does not exist"},
      {"bool 2", file_with([](GgufWriter& w) { w.add_raw("k", ValueType::kBool, as_bytes("\2")); }),
       Code::kCorrupt, "a bool is 2"},
      {"5 arrays deep", nested_arrays(4), Code::kCorrupt, "more than 4 deep"},
      {"10,000 arrays deep", nested_arrays(10'000), Code::kCorrupt, "more than 4 deep"},
      {"2^62 numbers", long_array(ValueType::kU64, uint64_t{1} << 62), Code::kCorrupt,
       "array length is"},
      {"2^61 + 1 numbers", long_array(ValueType::kU64, (uint64_t{1} << 61) + 1), Code::kCorrupt,
       "array length"},
      {"2^60 strings", long_array(ValueType::kString, uint64_t{1} << 60), Code::kCorrupt,
       "array length"},
      {"3 strings", long_array(ValueType::kString, 3), Code::kCorrupt,
       "but only 16 bytes are left"},
      {"2^60 arrays", long_array(ValueType::kArray, uint64_t{1} << 60), Code::kCorrupt,
       "array length"},
      {"alignment 0", alignment_of(0), Code::kCorrupt, "alignment is 0; expected a power of two"},
      {"alignment 48", alignment_of(48), Code::kCorrupt, "alignment is 48"},
      {"alignment as text",
       file_with([](GgufWriter& w) { w.add_string("general.alignment", "32"); }), Code::kCorrupt,
       "general.alignment is a string; expected u32"},
      {"no dimension", file_with_tensor(0, {}), Code::kCorrupt, "0 dimensions; expected 1 to 4"},
      {"5 dimensions", file_with_tensor(0, {1, 1, 1, 1, 1}), Code::kCorrupt, "5 dimensions"},
      {"size 0", file_with_tensor(0, {4, 0}), Code::kCorrupt, "dimension 1 is 0"},
      {"size -1", file_with_tensor(0, {-1}), Code::kCorrupt, "dimension 0 is 18446744073709551615"},
      {"2^64 values", file_with_tensor(0, {int64_t{1} << 32, int64_t{1} << 32}), Code::kCorrupt,
       "overflows"},
      {"2^64 bytes", file_with_tensor(0, {int64_t{1} << 62}), Code::kCorrupt, "overflows"},
      {"wraps to 16 values", file_with_tensor(24, {int64_t{1} << 62, 4, 4}), Code::kCorrupt,
       "overflows"},
      {"half a block", file_with_tensor(2, {48, 2}), Code::kCorrupt,
       "no multiple of Q4_0's block of 32"},
      {"an eighth of a block", file_with_tensor(12, {32, 2}), Code::kCorrupt,
       "rows of 32 values are no multiple of Q4_K's block of 256"},
      {"a block and a half", file_with_tensor(14, {384}, 420), Code::kCorrupt,
       "rows of 384 values are no multiple of Q6_K's block of 256"},
      {"half a block of 17 bytes", file_with_tensor(39, {16, 2}), Code::kCorrupt,
       "no multiple of MXFP4's block of 32"},
      {"2^64 bytes in blocks of 256", file_with_tensor(10, {int64_t{1} << 62, 4}), Code::kCorrupt,
       "overflows"},
      {"type 4", file_with_tensor(4, {32}), Code::kUnsupported, "unknown element type 4"},
      {"type 99", file_with_tensor(99, {32}), Code::kUnsupported, "unknown element type 99"},
      {"past the end", file_with_tensor(0, {17}), Code::kCorrupt, "68 bytes at 0 after this"},
      {"tensor twice", file_with(two_tensors), Code::kCorrupt, "tensor 't' is there twice"},
      {"overlap", file_with(overlapping), Code::kCorrupt, "tensors 'a' and 'b' overlap"},
      {"a name of 1000 bytes", file_with([](GgufWriter& w) {
         const int64_t shape[] = {8};
         w.add_tensor(std::string(1000, 'n'), 0, shape, Bytes(32));
       }),
       Code::kCorrupt, "tensor name of 1000 bytes; at most 256"},
  };
}

TEST(HostileFile, LiesAreRefusedByNameAndPlace) {
  for (Lie& lie : lies()) {
    largest_allocation = 0;
    const size_t size = lie.bytes.size();
    const Error error = error_of(std::move(lie.bytes));
    EXPECT_EQ(error.code, lie.code) << lie.what << ": " << error.text();
    EXPECT_THAT(error.message, HasSubstr(lie.reason)) << lie.what;
    EXPECT_THAT(error.message, HasSubstr("bad.gguf: offset ")) << lie.what;
    EXPECT_LT(largest_allocation.load(), 4096 + 2 * size) << lie.what;
  }
}

TEST(HostileFile, OffsetsOffTheAlignmentAreRefused) {
  // The directory's last 8 bytes are the only tensor's offset.
  const Bytes bytes = file_with_tensor(0, {8}, 128);
  MemorySource source(bytes);
  const uint64_t field = read_gguf_head(source).value().directory_end - 8;
  EXPECT_THAT(error_of(with(bytes, field, uint64_t{1})).message,
              HasSubstr("no multiple of the alignment 32"));
  EXPECT_THAT(error_of(with(bytes, field, UINT64_MAX - 31)).message,
              HasSubstr("after this, but the file ends"));
  EXPECT_EQ(error_of(with(bytes, field, uint64_t{96})).message, "it opened");
  EXPECT_THAT(error_of(with(bytes, field, uint64_t{128})).message, HasSubstr("the file ends"));
}

}  // namespace
}  // namespace meadow::format
