#include "format/gguf_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

#include "format/ggml_types.h"

namespace meadow::format {
namespace {

static_assert(std::endian::native == std::endian::little,
              "values are read as the host stores them");

constexpr std::string_view kMagic = "GGUF";
constexpr uint64_t kFirstWindowBytes = 64 * 1024;
// The least that one of each takes in a file: lengths, types and a value of one byte.
constexpr uint64_t kLeastEntryBytes = 8 + 4 + 1;
constexpr uint64_t kLeastTensorBytes = 8 + 4 + 8 + 4 + 8;

// A reading position in the first bytes of a source. When a read passes the end of these bytes but
// not of the file, the parse is abandoned and begun again with a larger window: that keeps every
// view contiguous and lets a source fetch only what is needed.
class Cursor {
 public:
  Cursor(std::string_view file, ByteView window, uint64_t file_bytes)
      : file_(file), window_(window), file_bytes_(file_bytes) {}

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return file_bytes_ - position_; }
  // Where a wider window has to reach; 0 if the parse never passed this one.
  uint64_t wanted() const { return wanted_; }

  template <class... Args>
  std::unexpected<Error> corrupt(uint64_t offset, fmt::format_string<Args...> reason,
                                 Args&&... args) const {
    return at(Code::kCorrupt, offset, fmt::format(reason, std::forward<Args>(args)...));
  }
  std::unexpected<Error> at(Code code, uint64_t offset, std::string reason) const {
    return fail(code, "{}: offset {}: {}", file_, offset, reason);
  }

  Result<ByteView> take(uint64_t count, std::string_view what) {
    if (count > remaining())
      return corrupt(position_, "{} of {} bytes, but the file has {} left", what, count,
                     remaining());
    if (count > window_.size() - position_) {
      wanted_ = position_ + count;
      return corrupt(position_, "{} is beyond the window", what);
    }
    const ByteView bytes = window_.subspan(position_, count);
    position_ += count;
    return bytes;
  }

  template <class T>
  Result<T> number(std::string_view what) {
    MEADOW_TRY(const ByteView bytes, take(sizeof(T), what));
    T value;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }

  Result<std::string_view> string(uint64_t limit, std::string_view what) {
    const uint64_t start = position_;
    MEADOW_TRY(const uint64_t length, number<uint64_t>(what));
    if (length > limit)
      return corrupt(start, "{} of {} bytes; at most {} are allowed", what, length, limit);
    MEADOW_TRY(const ByteView bytes, take(length, what));
    return as_text(bytes);
  }

  // A number of items, each of at least `least_bytes`, that must fit in what is left of the file.
  Result<uint64_t> count(uint64_t least_bytes, uint64_t limit, std::string_view what) {
    const uint64_t start = position_;
    MEADOW_TRY(const uint64_t items, number<uint64_t>(what));
    if (items > limit)
      return corrupt(start, "{} is {}; at most {} are allowed", what, items, limit);
    if (items > remaining() / least_bytes)
      return corrupt(start, "{} is {}, but only {} bytes are left", what, items, remaining());
    return items;
  }

  ByteView since(uint64_t start) const { return window_.subspan(start, position_ - start); }

 private:
  std::string_view file_;
  ByteView window_;
  uint64_t file_bytes_;
  uint64_t position_ = 0;
  uint64_t wanted_ = 0;
};

Result<ValueType> read_type(Cursor& in) {
  const uint64_t start = in.position();
  MEADOW_TRY(const uint32_t number, in.number<uint32_t>("value type"));
  if (number > static_cast<uint32_t>(ValueType::kF64))
    return in.corrupt(start, "value type {} does not exist", number);
  return static_cast<ValueType>(number);
}

Result<void> check_booleans(const Cursor& in, uint64_t start, ByteView bytes) {
  for (size_t i = 0; i < bytes.size(); i++)
    if (bytes[i] > 1) return in.corrupt(start + i, "a bool is {}; expected 0 or 1", bytes[i]);
  return {};
}

Result<Value> read_value(Cursor& in, ValueType type, int depth);

Result<Value> read_array(Cursor& in, int depth) {
  const uint64_t start = in.position();
  if (depth >= kMaxArrayDepth)
    return in.corrupt(start, "arrays within arrays, more than {} deep", kMaxArrayDepth);
  MEADOW_TRY(const ValueType element, read_type(in));
  const size_t element_bytes = fixed_bytes(element);
  // A string has at least its length, an array its type and count.
  const uint64_t least = element == ValueType::kString  ? 8
                         : element == ValueType::kArray ? 12
                                                        : element_bytes;
  MEADOW_TRY(const uint64_t count, in.count(least, UINT64_MAX, "array length"));
  const uint64_t data = in.position();
  if (element_bytes > 0) {
    MEADOW_TRY(const ByteView bytes, in.take(count * element_bytes, "array"));
    if (element == ValueType::kBool) MEADOW_TRY_VOID(check_booleans(in, data, bytes));
  } else {
    for (uint64_t i = 0; i < count; i++) MEADOW_TRY_VOID(read_value(in, element, depth + 1));
  }
  return Value{ValueType::kArray, element, count, in.since(data)};
}

Result<Value> read_value(Cursor& in, ValueType type, int depth) {
  if (type == ValueType::kArray) return read_array(in, depth);
  if (type == ValueType::kString) {
    MEADOW_TRY(const std::string_view text, in.string(UINT64_MAX, "string"));
    return Value{type, type, 1, as_bytes(text)};
  }
  const uint64_t start = in.position();
  MEADOW_TRY(const ByteView bytes, in.take(fixed_bytes(type), name(type)));
  if (type == ValueType::kBool) MEADOW_TRY_VOID(check_booleans(in, start, bytes));
  return Value{type, type, 1, bytes};
}

Result<void> read_header(Cursor& in, GgufHead& head) {
  MEADOW_TRY(const ByteView magic, in.take(kMagic.size(), "magic"));
  if (as_text(magic) != kMagic)
    return in.corrupt(0, "not a GGUF file: it starts with {} instead of 'GGUF'",
                      in_quotes(as_text(magic)));
  MEADOW_TRY(head.version, in.number<uint32_t>("version"));
  if (head.version != 0 && (head.version & 0xffff) == 0)
    return in.at(Code::kUnsupported, 4,
                 "a big-endian GGUF file; only little-endian ones are supported: convert it with "
                 "gguf_convert_endian.py");
  if (head.version != 2 && head.version != 3)
    return in.at(Code::kUnsupported, 4,
                 fmt::format("GGUF version {}; versions 2 and 3 are supported", head.version));
  return {};
}

Result<void> read_metadata(Cursor& in, uint64_t count, GgufHead& head) {
  std::set<std::string_view> keys;
  for (uint64_t i = 0; i < count; i++) {
    const uint64_t start = in.position();
    MEADOW_TRY(const std::string_view key, in.string(kMaxKeyBytes, "metadata key"));
    if (key.empty()) return in.corrupt(start, "metadata key {} is empty", i);
    if (!keys.insert(key).second)
      return in.corrupt(start, "metadata key {} is there twice", in_quotes(key));
    MEADOW_TRY(const ValueType type, read_type(in));
    MEADOW_TRY(Value value, read_value(in, type, 0));
    if (key == "general.alignment") {
      if (type != ValueType::kU32)
        return in.corrupt(start, "general.alignment is a {}; expected u32", name(type));
      uint32_t alignment;
      std::memcpy(&alignment, value.bytes.data(), sizeof alignment);
      if (!std::has_single_bit(alignment))
        return in.corrupt(start, "general.alignment is {}; expected a power of two", alignment);
      head.alignment = alignment;
    }
    head.entries.push_back({key, value});
  }
  return {};
}

// Sets tensor.bytes from shape and type.
Result<void> measure(const Cursor& in, uint64_t start, TensorInfo& tensor) {
  const GgmlType* type = ggml_type(tensor.ggml_type);
  if (type == nullptr)
    return in.at(Code::kUnsupported, start,
                 fmt::format("tensor {} has the unknown element type {}", in_quotes(tensor.name),
                             tensor.ggml_type));
  if (tensor.shape[0] % type->block_values != 0)
    return in.corrupt(start, "tensor {}: rows of {} values are no multiple of {}'s block of {}",
                      in_quotes(tensor.name), tensor.shape[0], type->name, type->block_values);
  uint64_t bytes = static_cast<uint64_t>(tensor.shape[0] / type->block_values);
  bool overflow = __builtin_mul_overflow(bytes, static_cast<uint64_t>(type->block_bytes), &bytes);
  int64_t values = 1;  // their number must be countable too, whatever the type
  for (size_t i = 0; i < tensor.shape.size(); i++) {
    overflow |= __builtin_mul_overflow(values, tensor.shape[i], &values);
    if (i > 0)
      overflow |= __builtin_mul_overflow(bytes, static_cast<uint64_t>(tensor.shape[i]), &bytes);
  }
  if (overflow)
    return in.corrupt(start, "tensor {}: its shape overflows 64 bits", in_quotes(tensor.name));
  tensor.bytes = bytes;
  return {};
}

Result<TensorInfo> read_tensor(Cursor& in) {
  TensorInfo tensor;
  const uint64_t start = in.position();
  MEADOW_TRY(const std::string_view name, in.string(kMaxTensorNameBytes, "tensor name"));
  if (name.empty()) return in.corrupt(start, "a tensor without a name");
  tensor.name = name;
  MEADOW_TRY(const uint32_t dimensions, in.number<uint32_t>("number of dimensions"));
  if (dimensions < 1 || dimensions > kMaxDimensions)
    return in.corrupt(start, "tensor {} has {} dimensions; expected 1 to {}", in_quotes(name),
                      dimensions, kMaxDimensions);
  for (uint32_t i = 0; i < dimensions; i++) {
    MEADOW_TRY(const uint64_t size, in.number<uint64_t>("dimension"));
    if (size == 0 || size > static_cast<uint64_t>(INT64_MAX))
      return in.corrupt(start, "tensor {}: dimension {} is {}", in_quotes(name), i, size);
    tensor.shape.push_back(static_cast<int64_t>(size));
  }
  MEADOW_TRY(tensor.ggml_type, in.number<uint32_t>("element type"));
  MEADOW_TRY(tensor.offset, in.number<uint64_t>("tensor offset"));  // made absolute by place()
  MEADOW_TRY_VOID(measure(in, start, tensor));
  return tensor;
}

// Turns offsets from the start of the data into offsets from the start of the file, and checks that
// the ranges lie inside the file and apart.
Result<void> place(const Cursor& in, GgufHead& head, uint64_t file_bytes) {
  // No overflow: the alignment is below 2^32 and a file below 2^63 bytes.
  const uint64_t data = (head.directory_end + head.alignment - 1) / head.alignment * head.alignment;
  std::vector<std::pair<uint64_t, size_t>> order;
  order.reserve(head.tensors.size());
  for (size_t i = 0; i < head.tensors.size(); i++) {
    TensorInfo& tensor = head.tensors[i];
    if (tensor.offset % head.alignment != 0)
      return in.corrupt(data, "tensor {}: its offset {} is no multiple of the alignment {}",
                        in_quotes(tensor.name), tensor.offset, head.alignment);
    if (data > file_bytes || tensor.offset > file_bytes - data ||
        tensor.bytes > file_bytes - data - tensor.offset)
      return in.corrupt(data, "tensor {}: {} bytes at {} after this, but the file ends at {}",
                        in_quotes(tensor.name), tensor.bytes, tensor.offset, file_bytes);
    tensor.offset += data;
    order.emplace_back(tensor.offset, i);
  }
  std::sort(order.begin(), order.end());
  for (size_t i = 1; i < order.size(); i++) {
    const TensorInfo& before = head.tensors[order[i - 1].second];
    if (before.offset + before.bytes > order[i].first)
      return in.corrupt(order[i].first, "tensors {} and {} overlap", in_quotes(before.name),
                        in_quotes(head.tensors[order[i].second].name));
  }
  return {};
}

Result<GgufHead> parse(Cursor& in, uint64_t file_bytes) {
  GgufHead head;
  MEADOW_TRY_VOID(read_header(in, head));
  const uint64_t counts = in.position();
  MEADOW_TRY(const uint64_t tensors, in.count(kLeastTensorBytes, kMaxTensors, "number of tensors"));
  MEADOW_TRY(const uint64_t entries,
             in.count(kLeastEntryBytes, kMaxMetadataEntries, "number of metadata entries"));
  if (tensors * kLeastTensorBytes + entries * kLeastEntryBytes > in.remaining())
    return in.corrupt(counts, "{} tensors and {} metadata entries, but only {} bytes are left",
                      tensors, entries, in.remaining());
  MEADOW_TRY_VOID(read_metadata(in, entries, head));
  std::set<std::string, std::less<>> names;
  for (uint64_t i = 0; i < tensors; i++) {
    const uint64_t start = in.position();
    MEADOW_TRY(TensorInfo tensor, read_tensor(in));
    if (!names.insert(tensor.name).second)
      return in.corrupt(start, "tensor {} is there twice", in_quotes(tensor.name));
    head.tensors.push_back(std::move(tensor));
  }
  head.directory_end = in.position();
  MEADOW_TRY_VOID(place(in, head, file_bytes));
  return head;
}

}  // namespace

Result<GgufHead> read_gguf_head(Source& source) {
  const std::string name = source.name();
  const uint64_t file_bytes = source.size();
  uint64_t window = std::min(file_bytes, kFirstWindowBytes);
  while (true) {
    MEADOW_TRY(const ByteView bytes, source.view(0, window, Purpose::kMetadata));
    Cursor in(name, bytes, file_bytes);
    Result<GgufHead> head = parse(in, file_bytes);
    if (head || in.wanted() == 0) return head;
    window = std::min(file_bytes, std::max(2 * window, in.wanted()));
  }
}

}  // namespace meadow::format
