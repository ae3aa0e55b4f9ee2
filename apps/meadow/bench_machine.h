// What `meadow bench` measures around a model: how fast this machine reads memory, and how long a
// fresh process takes to the first token.
// Thread rule: main thread.
#pragma once
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/dtype.h"
#include "base/result.h"
#include "meadow/terminal.h"

namespace meadow::apps {

struct StreamSpeed {
  int threads = 1;
  double gb_per_s = 0;        // best pass
  size_t prefetch_ahead = 0;  // of it, bytes; 0: plain loads
  double plain_gb_per_s = 0;  // best pass of plain loads
};
// Best of several passes over at least 1 GB and four times the last cache, for 1 to `threads`
// threads (powers of two, and `threads`). kResourceExhausted if there is no such memory.
Result<std::vector<StreamSpeed>> measure_stream(int threads, const Clock& clock);

// From the start of a process to the logits of a prompt of one token, in milliseconds.
struct StartTimes {
  double total = 0;      // seen by the parent: with loading the program and its end
  double map = 0;        // opening the file, reading metadata and directory
  double tokenizer = 0;  // making it
  double weights = 0;    // handles, checks of all weights
  double decode = 0;     // embedding, blocks and head for one token
};
// In this process; `total` stays 0.
Result<StartTimes> measure_start_here(const std::string& file, int threads, DType cache,
                                      const Clock& clock);
// In a fresh process of this program, `arguments` after "bench"; it prints what
// to_json(measure_start_here()) says.
Result<StartTimes> measure_start(const std::vector<std::string>& arguments, const Clock& clock);
Json to_json(const StartTimes& times);

}  // namespace meadow::apps
