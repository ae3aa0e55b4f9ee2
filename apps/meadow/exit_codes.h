// Exit codes of the program: docs/errors.md lists them for people.
// Thread rule: pure functions.
#pragma once
#include "base/result.h"

namespace meadow::apps {

enum ExitCode : int {
  kExitOk = 0,
  kExitDiffers = 1,  // a check ran and failed: the answer differs
  kExitUsage = 2,    // the command line or its values
  kExitNotFound = 3,
  kExitBadFile = 4,      // corrupt or unsupported
  kExitUnavailable = 5,  // no peer that serves, or too late
  kExitNoRoom = 6,       // memory, cache, context
  kExitDenied = 7,       // key, secret, file permission
  kExitInternal = 70,
  kExitCancelled = 130,  // as shells say of SIGINT
};

constexpr ExitCode exit_code(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return kExitUsage;
    case Code::kNotFound:
      return kExitNotFound;
    case Code::kCorrupt:
    case Code::kUnsupported:
      return kExitBadFile;
    case Code::kResourceExhausted:
      return kExitNoRoom;
    case Code::kPermissionDenied:
      return kExitDenied;
    case Code::kFailedPrecondition:
    case Code::kUnavailable:
    case Code::kDeadlineExceeded:
      return kExitUnavailable;
    case Code::kCancelled:
      return kExitCancelled;
    case Code::kInternal:
      return kExitInternal;
  }
  return kExitInternal;
}

}  // namespace meadow::apps
