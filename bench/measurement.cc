#include "measurement.h"

#include <algorithm>
#include <map>
#include <memory>

namespace meadow::bench {
namespace {

constexpr size_t kStreamBytes = size_t{512} << 20;
// A kernel that takes microseconds is called again until this time is over.
constexpr double kLeastSeconds = 0.004;

struct Limits {
  double stream = 0;
  double peaks[3] = {};
};

// Seconds of one call, on the average of as many calls as fill the least time.
double timed(const std::function<double()>& call) {
  double sum = 0;
  int calls = 0;
  do {
    sum += call();
    calls++;
  } while (sum < kLeastSeconds);
  return sum / calls;
}

struct Samples {
  std::vector<double> gb_per_s, gflop_per_s, of_stream, of_peak, price;
};

void add_sample(const Case& c, const Limits& limits, Samples& s) {
  const double taken = timed(c.ours);
  s.gb_per_s.push_back(c.gigabytes / taken);
  s.gflop_per_s.push_back(c.operations / taken);
  s.of_stream.push_back(s.gb_per_s.back() / limits.stream);
  if (const double peak = limits.peaks[static_cast<int>(c.unit)]; peak > 0)
    s.of_peak.push_back(s.gflop_per_s.back() / peak);
  if (c.order_free) s.price.push_back(taken / timed(c.order_free));
}

Outcome outcome(const Samples& s) {
  return {median(s.gb_per_s),
          median(s.gflop_per_s),
          *std::min_element(s.gflop_per_s.begin(), s.gflop_per_s.end()),
          *std::max_element(s.gflop_per_s.begin(), s.gflop_per_s.end()),
          median(s.of_stream),
          median(s.of_peak),
          median(s.price)};
}

Bounds bounds(int threads, const std::vector<Limits>& seen) {
  std::vector<double> stream, peaks[3];
  for (const Limits& l : seen) {
    stream.push_back(l.stream);
    for (int i = 0; i < 3; i++) peaks[i].push_back(l.peaks[i]);
  }
  return {threads, median(stream), median(peaks[0]), median(peaks[1]), median(peaks[2])};
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Report measure(const std::vector<Case>& cases, const std::vector<int>& threads, int rounds) {
  const std::vector<uint8_t> block(kStreamBytes + 4096, 1);
  const size_t skip = 4096 - reinterpret_cast<uintptr_t>(block.data()) % 4096;
  const ByteView memory(block.data() + skip, kStreamBytes);  // a load that crosses lines is slow
  const kernels::Target target = kernels::active_target();
  std::vector<Samples> samples(cases.size());
  std::map<int, std::vector<Limits>> seen;
  std::map<int, std::unique_ptr<ThreadPool>> pools;
  for (int t : threads) pools[t] = std::make_unique<ThreadPool>(t);
  for (const Case& c : cases) c.ours(), c.order_free ? c.order_free() : 0;  // first touch
  for (int round = 0; round < rounds; round++) {
    for (int t : threads) {
      Limits limits{stream(memory, *pools[t]), {}};
      for (Unit unit : {Unit::kFloat, Unit::kNarrow, Unit::kWide})
        limits.peaks[static_cast<int>(unit)] = peak(unit, target, *pools[t]);
      seen[t].push_back(limits);
    }
    for (size_t i = 0; i < cases.size(); i++)
      add_sample(cases[i], seen[cases[i].threads].back(), samples[i]);
  }
  Report report;
  for (const Samples& s : samples) report.outcomes.push_back(outcome(s));
  for (int t : threads) report.bounds.push_back(bounds(t, seen[t]));
  return report;
}

}  // namespace meadow::bench
