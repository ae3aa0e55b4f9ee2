#include "rpc/status.h"

#include <iterator>

#include "base/check.h"

namespace meadow::rpc {
namespace {

struct Pair {
  Code code;
  grpc::StatusCode status;
};
constexpr Pair kPairs[] = {
    {Code::kInvalidArgument, grpc::INVALID_ARGUMENT},
    {Code::kNotFound, grpc::NOT_FOUND},
    {Code::kCorrupt, grpc::DATA_LOSS},
    {Code::kUnsupported, grpc::UNIMPLEMENTED},
    {Code::kResourceExhausted, grpc::RESOURCE_EXHAUSTED},
    {Code::kPermissionDenied, grpc::PERMISSION_DENIED},
    {Code::kFailedPrecondition, grpc::FAILED_PRECONDITION},
    {Code::kUnavailable, grpc::UNAVAILABLE},
    {Code::kDeadlineExceeded, grpc::DEADLINE_EXCEEDED},
    {Code::kCancelled, grpc::CANCELLED},
    {Code::kInternal, grpc::INTERNAL},
};

// Bytes of the UTF-8 sequence that starts at `at`, 0 if it is none.
size_t sequence_length(std::string_view s, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(s[i]); };
  const uint8_t lead = byte(at);
  const size_t n = lead < 0x80                    ? 1
                   : lead >= 0xc2 && lead <= 0xdf ? 2
                   : lead >= 0xe0 && lead <= 0xef ? 3
                   : lead >= 0xf0 && lead <= 0xf4 ? 4
                                                  : 0;
  if (n == 0 || at + n > s.size()) return 0;
  for (size_t i = 1; i < n; i++)
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
  if (lead == 0xe0 && byte(at + 1) < 0xa0) return 0;  // overlong
  if (lead == 0xed && byte(at + 1) > 0x9f) return 0;  // surrogates
  if (lead == 0xf0 && byte(at + 1) < 0x90) return 0;  // overlong
  if (lead == 0xf4 && byte(at + 1) > 0x8f) return 0;  // above U+10FFFF
  return n;
}

}  // namespace

std::string clean_text(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size() && out.size() + 4 <= kMaxErrorText;) {
    const size_t n = sequence_length(text, at);
    if (n == 0) {
      out += '?';
      at++;
    } else {
      out += text.substr(at, n);
      at += n;
    }
  }
  return out;
}

grpc::Status to_status(const Error& error) {
  for (const Pair& pair : kPairs)
    if (pair.code == error.code) return {pair.status, clean_text(error.message)};
  return {grpc::INTERNAL, clean_text(error.message)};
}

Error from_status(const grpc::Status& status) {
  MEADOW_CHECK(!status.ok());
  std::string text = clean_text(status.error_message());
  if (status.error_code() == grpc::UNAUTHENTICATED) return {Code::kPermissionDenied, text};
  for (const Pair& pair : kPairs)
    if (pair.status == status.error_code()) return {pair.code, text};
  return {Code::kInternal, fmt::format("gRPC status {}: {}", int{status.error_code()}, text)};
}

}  // namespace meadow::rpc
