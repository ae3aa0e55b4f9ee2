#include "model/loader.h"

#include <algorithm>

#include "kernels/dequantise.h"

namespace meadow::model {
namespace {

std::string text(std::span<const int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

// Files may leave out trailing dimensions of 1.
bool same_shape(std::span<const int64_t> got, std::span<const int64_t> want) {
  const size_t n = std::max(got.size(), want.size());
  for (size_t i = 0; i < n; i++)
    if ((i < got.size() ? got[i] : 1) != (i < want.size() ? want[i] : 1)) return false;
  return true;
}

}  // namespace

Result<Loader::Found> Loader::find(const std::string& name, std::span<const int64_t> shape) {
  const format::TensorInfo* tensor = file_.find(name);
  if (tensor == nullptr)
    return fail(Code::kCorrupt, "the model has no tensor {}, which its architecture needs", name);
  if (!same_shape(tensor->shape, shape))
    return fail(Code::kCorrupt, "tensor {}: expected shape {}, got {}", name, text(shape),
                text(tensor->shape));
  MEADOW_TRY(DType type, file_.dtype_of(*tensor));
  used_.insert(name);
  MEADOW_TRY(ByteView bytes, file_.data(*tensor));
  return Found{type, bytes};
}

Result<compute::Weight> Loader::matrix(std::string_view name, int64_t k, int64_t m) {
  const std::string full = prefix_ + std::string(name);
  const int64_t shape[] = {k, m};
  MEADOW_TRY(Found found, find(full, shape));
  return ops_.matrix(full, found.type, found.bytes, k, m);
}

Result<std::vector<float>> Loader::values(std::string_view name, int64_t k) {
  const std::string full = prefix_ + std::string(name);
  const int64_t shape[] = {k};
  MEADOW_TRY(Found found, find(full, shape));
  const DTypeInfo& type = info(found.type);
  if (type.block_values != 1)
    return fail(Code::kUnsupported, "tensor {}: a vector of type {}; expected F32, F16 or BF16",
                full, type.name);
  if (found.bytes.size() != static_cast<uint64_t>(row_bytes(found.type, k)))
    return fail(Code::kCorrupt, "tensor {}: expected {} bytes, got {}", full,
                row_bytes(found.type, k), found.bytes.size());
  std::vector<float> out(static_cast<size_t>(k));
  kernels::dequantise_row(found.type, found.bytes.data(), k, out.data());
  return out;
}

Result<compute::Weight> Loader::vector(std::string_view name, int64_t k) {
  MEADOW_TRY(std::vector<float> read, values(name, k));
  return ops_.vector(prefix_ + std::string(name), read);
}

bool Loader::has(std::string_view name) const {
  return file_.find(prefix_ + std::string(name)) != nullptr;
}

Result<compute::Weight> Loader::optional_vector(std::string_view name, int64_t k) {
  if (!has(name)) return compute::Weight{};
  return vector(name, k);
}

Result<void> Loader::check_all_used() const {
  for (const format::TensorInfo& tensor : file_.tensors())
    if (tensor.name.starts_with(prefix_) && !used_.contains(tensor.name))
      return fail(
          Code::kUnsupported,
          "tensor {} has no meaning in this version; the model would run wrongly without it",
          tensor.name);
  return {};
}

}  // namespace meadow::model
