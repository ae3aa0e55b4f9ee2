// Our errors as gRPC statuses and back. One code maps to one status, so an error keeps its meaning
// and its text across a link.
// Thread rule: pure functions.
#pragma once
#include <grpcpp/support/status.h>

#include "base/result.h"

namespace meadow::rpc {

// Longest error text that travels; the rest is cut (statuses live in bounded trailers).
constexpr size_t kMaxErrorText = 1024;

grpc::Status to_status(const Error& error);
// UNAUTHENTICATED (no proof of the secret given yet) becomes kPermissionDenied. A status without a
// counterpart becomes kInternal. Must not be OK.
Error from_status(const grpc::Status& status);

// At most kMaxErrorText bytes of valid UTF-8.
std::string clean_text(std::string_view text);

}  // namespace meadow::rpc
