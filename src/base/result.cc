#include "base/result.h"

namespace meadow {

std::string_view name(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return "invalid-argument";
    case Code::kNotFound:
      return "not-found";
    case Code::kCorrupt:
      return "corrupt";
    case Code::kUnsupported:
      return "unsupported";
    case Code::kResourceExhausted:
      return "resource-exhausted";
    case Code::kPermissionDenied:
      return "permission-denied";
    case Code::kFailedPrecondition:
      return "failed-precondition";
    case Code::kUnavailable:
      return "unavailable";
    case Code::kDeadlineExceeded:
      return "deadline-exceeded";
    case Code::kCancelled:
      return "cancelled";
    case Code::kInternal:
      return "internal";
  }
  return "internal";
}

std::string Error::text() const { return fmt::format("{}: {}", name(code), message); }

Error Error::within(std::string_view where) const {
  return {code, fmt::format("{}: {}", where, message)};
}

}  // namespace meadow
