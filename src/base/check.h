// Broken invariants end the process; nothing that a file, a user or a peer says may reach one.
// Thread rule: any thread.
#pragma once
#include <cstdio>
#include <cstdlib>

// Aborts with file and line if `condition` is false, in every build type.
#define MEADOW_CHECK(condition)                                                              \
  do {                                                                                       \
    if (!(condition)) [[unlikely]] {                                                         \
      std::fprintf(stderr, "%s:%d: broken invariant: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                          \
    }                                                                                        \
  } while (false)
