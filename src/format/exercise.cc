#include "format/exercise.h"

#include "base/check.h"
#include "format/inspect.h"
#include "format/model_file.h"

namespace meadow::format {
namespace {

void read_everything(const Metadata& metadata) {
  uint64_t sum = 0;  // the compiler may not skip the reads
  for (const Metadata::Entry& entry : metadata.entries()) {
    const std::string_view key = entry.key;
    MEADOW_CHECK(metadata.find(key) == &entry.value);
    sum += metadata.u64(key).value_or(0);
    sum += metadata.f32(key).has_value() + metadata.boolean(key).has_value();
    if (const auto text = metadata.string(key)) sum += sha256(*text).bytes[0];
    if (const auto strings = metadata.strings(key)) {
      uint64_t count = 0;
      for (const std::string_view text : *strings) {
        sum += sha256(text).bytes[0];
        count++;
      }
      MEADOW_CHECK(count == strings->size());
    }
    if (const auto numbers = metadata.integers(key))
      for (size_t i = 0; i < numbers->size(); i++) sum += static_cast<uint64_t>((*numbers)[i]);
    if (const auto numbers = metadata.floats(key))
      for (size_t i = 0; i < numbers->size(); i++) sum += (*numbers)[i] > 0;
  }
  volatile uint64_t used = sum;
  (void)used;
}

}  // namespace

bool exercise(Bytes data) {
  const auto opened = ModelFile::open(std::make_shared<MemorySource>(std::move(data)));
  if (!opened) {
    MEADOW_CHECK(opened.error().code == Code::kCorrupt ||
                 opened.error().code == Code::kUnsupported);
    MEADOW_CHECK(opened.error().message.starts_with("memory: offset "));
    return false;
  }
  const ModelFile& file = **opened;
  read_everything(file.metadata());
  for (const TensorInfo& tensor : file.tensors()) {
    MEADOW_CHECK(file.find(tensor.name) == &tensor);
    const auto bytes = file.data(tensor);
    MEADOW_CHECK(bytes && bytes->size() == tensor.bytes && tensor.offset % file.alignment() == 0);
    if (const auto type = file.dtype_of(tensor)) {
      int64_t rows = 1;
      for (size_t i = 1; i < tensor.shape.size(); i++) rows *= tensor.shape[i];
      MEADOW_CHECK(static_cast<uint64_t>(rows * row_bytes(*type, tensor.shape[0])) == tensor.bytes);
    }
  }
  MEADOW_CHECK(file.weight_bytes_touched() <= file.file_bytes());
  MEADOW_CHECK(describe(file, true) && describe_json(file, true));
  return true;
}

}  // namespace meadow::format
