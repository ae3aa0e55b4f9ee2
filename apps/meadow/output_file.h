// A file of results that is written whole or not at all.
// Thread rule: any thread; two writers of one path: one of them wins whole.
#pragma once
#include <string>
#include <string_view>

#include "base/result.h"

namespace meadow::apps {

// Whether write_whole() has a chance, before hours of work: the folder is there and may be written
// to, and `path` is no folder. Errors name the path: kNotFound, kPermissionDenied,
// kInvalidArgument. Leaves no trace.
Result<void> check_can_write(const std::string& path);

// Replaces the file `path` by one with these bytes; on an error what was there before stays. What
// is no plain file (a pipe, a device) is written to as it is. Errors name the path and the reason:
// kResourceExhausted if the disk is full, else as above, or kInternal. Blocks for the disk.
Result<void> write_whole(const std::string& path, std::string_view text);

// The error of a failed system call: `what`, then the words of `error_number`; the code by the
// kind.
Error system_error(std::string_view what, int error_number);

}  // namespace meadow::apps
