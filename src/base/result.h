// Expected failures: a typed Error that says expected, got, where, and what to do, and Result<T>,
// which carries it. Broken invariants are not errors: see check.h.
// Thread rule: values; any thread. Owns its text.
#pragma once
#include <fmt/format.h>

#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace meadow {

// What the caller can do about a failure. docs/errors.md lists them with exit codes.
enum class Code {
  kInvalidArgument,     // the caller's own mistake; never retried, no server is blamed for it
  kNotFound,            // a file, session, block or peer that is not there
  kCorrupt,             // bytes that do not mean what they must: a file, a message
  kUnsupported,         // well formed, but not in this version: named, with what is supported
  kResourceExhausted,   // memory, cache pages, context; another server may have room
  kPermissionDenied,    // wrong key, wrong secret, wrong peer
  kFailedPrecondition,  // the other side is in a state that forbids this (old epoch, wrong
                        // position)
  kUnavailable,         // a peer is not reachable or went away; another may serve
  kDeadlineExceeded,    // waited as long as allowed
  kCancelled,           // the caller gave up
  kInternal,            // a failure that none of the above describes
};

// Short name as printed and as in docs/errors.md, e.g. "not-found".
std::string_view name(Code code);

struct Error {
  Code code = Code::kInternal;
  std::string message;

  // "not-found: no file models/x.gguf; …"
  std::string text() const;
  // The same error seen from further out: "<where>: <message>".
  Error within(std::string_view where) const;
};

template <class T>
using Result = std::expected<T, Error>;

// return fail(Code::kCorrupt, "{}: offset {}: …", path, offset);
template <class... Args>
std::unexpected<Error> fail(Code code, fmt::format_string<Args...> format, Args&&... args) {
  return std::unexpected(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}
inline std::unexpected<Error> fail(Error error) { return std::unexpected(std::move(error)); }

// Evaluates a Result; on failure returns its error from the enclosing function.
//   MEADOW_TRY(auto file, open(path));     MEADOW_TRY_VOID(check(file));
#define MEADOW_TRY_CONCAT_(a, b) a##b
#define MEADOW_TRY_NAME_(a, b) MEADOW_TRY_CONCAT_(a, b)
#define MEADOW_TRY_IMPL_(temporary, declaration, ...)                       \
  auto temporary = (__VA_ARGS__);                                           \
  if (!temporary) return ::std::unexpected(::std::move(temporary).error()); \
  declaration = ::std::move(*temporary)
#define MEADOW_TRY(declaration, ...) \
  MEADOW_TRY_IMPL_(MEADOW_TRY_NAME_(meadow_try_, __LINE__), declaration, __VA_ARGS__)
#define MEADOW_TRY_VOID(...)                                            \
  do {                                                                  \
    if (auto meadow_try_result = (__VA_ARGS__); !meadow_try_result)     \
      return ::std::unexpected(::std::move(meadow_try_result).error()); \
  } while (false)

}  // namespace meadow
