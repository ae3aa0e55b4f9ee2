// Kernel calls to be timed, and what came of them. Rounds are outermost: every case of a table
// meets the machine in the same states. Thread rule: one thread. A case owns its data through its
// closure.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "machine.h"

namespace meadow::bench {

// One line of a table: a kernel, a shape, a number of threads.
struct Case {
  std::string family;  // "matmul", "decode", "prefill"
  std::string name;    // weight or cache type
  int64_t size = 0;    // tokens of a product, depth of an attention
  int threads = 1;
  Unit unit = Unit::kFloat;
  double gigabytes = 0;   // of weights or cache, read by one call of either
  double operations = 0;  // 1e9, of one call
  // One warm call each of ours and of the form that may sum in any order (empty: there is none);
  // both walk on through data that together exceeds the caches. Return seconds.
  std::function<double()> ours, order_free;
};

// Medians over rounds; shares and the price are medians of the ratios of single rounds.
struct Outcome {
  double gb_per_s = 0, gflop_per_s = 0;
  double lowest = 0, highest = 0;  // GFLOP/s over rounds
  double share_of_stream = 0;      // of the stream read with as many threads
  double share_of_peak = 0;        // of the unit's peak; 0: not known
  double price = 0;                // time of ours ÷ time of the order-free form; 0: there is none
};

// What the machine itself gave, medians over rounds.
struct Bounds {
  int threads = 0;
  double stream = 0;                     // GB/s
  double fma = 0, narrow = 0, wide = 0;  // GFLOP/s
};

struct Report {
  std::vector<Outcome> outcomes;  // of cases, in order
  std::vector<Bounds> bounds;     // one per number of threads
};

double median(std::vector<double> values);  // 0 of nothing

// Runs every case `rounds` times. `threads` are those that the cases name.
Report measure(const std::vector<Case>& cases, const std::vector<int>& threads, int rounds);

}  // namespace meadow::bench
