// Uses everything that bytes from a stranger can reach, once they have been accepted as a model
// file: what the fuzz target and the tests on damaged files run. Thread rule: pure function; any
// thread.
#pragma once
#include "format/source.h"

namespace meadow::format {

// Opens `data` and, if that succeeds, reads all metadata by every getter, all tensors, all digests
// and descriptions. Returns whether it opened. Ends the process if the file breaks a promise of
// model_file.h.
bool exercise(Bytes data);

}  // namespace meadow::format
