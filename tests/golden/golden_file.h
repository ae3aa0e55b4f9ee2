// Little-endian data written by the generators in tools/golden.
// Thread rule: one caller. Owns the bytes.
#pragma once
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/check.h"

namespace meadow::golden {

class GoldenFile {
 public:
  // Aborts the test program if the file is not there or does not begin with `magic`.
  GoldenFile(const std::string& path, const std::string& magic) {
    std::ifstream in(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(in), {});
    MEADOW_CHECK(bytes_.size() >= magic.size() &&
                 std::memcmp(bytes_.data(), magic.data(), magic.size()) == 0);
    at_ = magic.size();
  }

  template <class T>
  std::vector<T> read(size_t count) {
    MEADOW_CHECK(count <= (bytes_.size() - at_) / sizeof(T));
    std::vector<T> out(count);
    std::memcpy(out.data(), bytes_.data() + at_, count * sizeof(T));
    at_ += count * sizeof(T);
    return out;
  }
  bool at_end() const { return at_ == bytes_.size(); }

 private:
  std::vector<char> bytes_;
  size_t at_ = 0;
};

inline std::string data_path(const std::string& name) {
  return std::string(MEADOW_SOURCE_DIR) + "/tests/golden/data/" + name;
}

}  // namespace meadow::golden
