// Weights by name, out of a model file into an Ops: shape and type are checked before any use.
// Thread rule: one caller at a time. Borrows file and Ops, which must outlive it; the weights it
// returns stay in the file's mapping, so the file must outlive the Ops too.
#pragma once
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "compute/ops.h"
#include "format/model_file.h"

namespace meadow::model {

class Loader {
 public:
  Loader(const format::ModelFile& file, compute::Ops& ops) : file_(file), ops_(ops) {}

  // Names that follow are looked up as "<prefix><name>", e.g. "blk.7." + "attn_q.weight".
  void set_prefix(std::string prefix) { prefix_ = std::move(prefix); }

  // A matrix [k, m]. kCorrupt if it is missing, of another shape or holds a scale that is not
  // finite; kUnsupported, naming type and tensor, if its type is not in this version. Reads all of
  // it.
  Result<compute::Weight> matrix(std::string_view name, int64_t k, int64_t m);
  // A vector [k] of a float type, as f32; same failures.
  Result<compute::Weight> vector(std::string_view name, int64_t k);
  // The same, or an absent Weight if the file has none.
  Result<compute::Weight> optional_vector(std::string_view name, int64_t k);
  // The values themselves; k as above.
  Result<std::vector<float>> values(std::string_view name, int64_t k);
  bool has(std::string_view name) const;

  // kUnsupported if the file has a tensor under the prefix that nobody asked for: a model with a
  // part that this version would leave out must not run.
  Result<void> check_all_used() const;

 private:
  struct Found {
    DType type;
    ByteView bytes;
  };
  Result<Found> find(const std::string& name, std::span<const int64_t> shape);

  const format::ModelFile& file_;
  compute::Ops& ops_;
  std::string prefix_;
  std::set<std::string> used_;
};

}  // namespace meadow::model
