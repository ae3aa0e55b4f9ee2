// A model without any quantised product, for comparing what is left: the order of sums in f32.
// Thread rule: pure function.
#pragma once
#include <cstring>
#include <memory>
#include <vector>

#include "base/check.h"
#include "format/gguf_writer.h"
#include "format/model_file.h"
#include "kernels/dequantise.h"

namespace meadow::golden {

// The same model with every weight in F32: hyperparameters and tensors, no tokenizer.
inline std::shared_ptr<format::ModelFile> dequantised(const format::ModelFile& file) {
  format::GgufWriter writer;
  for (const auto& [key, value] : file.metadata().entries()) {
    if (key == "general.architecture")
      writer.add_string(key, as_text(value.bytes));
    else if (key.starts_with("llama.") && format::fixed_bytes(value.type) != 0)
      writer.add_raw(key, value.type, value.bytes);
  }
  for (const format::TensorInfo& t : file.tensors()) {
    const auto type = file.dtype_of(t);
    const auto data = file.data(t);
    MEADOW_CHECK(type.has_value() && data.has_value());
    const int64_t k = t.shape[0], rows = t.shape.size() > 1 ? t.shape[1] : 1;
    Bytes out(static_cast<size_t>(k * rows) * sizeof(float));
    std::vector<float> row(static_cast<size_t>(k));
    for (int64_t r = 0; r < rows; r++) {
      kernels::dequantise_row(*type, data->data() + r * row_bytes(*type, k), k, row.data());
      std::memcpy(out.data() + static_cast<size_t>(r * k) * sizeof(float), row.data(),
                  row.size() * sizeof(float));
    }
    writer.add_tensor(t.name, info(DType::kF32).ggml_type, t.shape, std::move(out));
  }
  auto opened = format::ModelFile::open(std::make_shared<format::MemorySource>(writer.bytes()));
  MEADOW_CHECK(opened.has_value());
  return *opened;
}

}  // namespace meadow::golden
