// Keeps what gRPC asks of OpenSSL from ending the process.
// Thread rule: any thread.
#pragma once

namespace meadow::rpc {

// Before gRPC's first use. gRPC 1.51 aborts when it cannot describe the other end's certificate;
// that happened (a) for an alternative name that is an address of neither 4 nor 16 bytes, which any
// stranger can send, and (b) for a handshake still running while the process exits and OpenSSL
// frees its tables. Our certificates have no alternative names, so gRPC is shown none (see the
// .cc), and OpenSSL leaves its memory to the exit of the process. Idempotent.
void guard_openssl();

}  // namespace meadow::rpc
