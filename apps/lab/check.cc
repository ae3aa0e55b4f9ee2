#include "check.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lab/lab.h"
#include "lab/probe.h"

namespace meadow::labapp {
namespace {

using Json = nlohmann::ordered_json;

struct Delay {
  Duration asked;
  lab::RoundTrips trips;
  // How far a round trip is from what was asked: never shorter, by a healthy relay.
  double error_ms(double quantile) const { return milliseconds(trips.at(quantile) - asked); }
};

struct Rate {
  double asked = 0, got = 0;
};

struct Figures {
  std::vector<Delay> delays;
  std::vector<Rate> rates;
  lab::RelayStats stats;
  bool priority = false, awake = false;
};

Result<Figures> measure(size_t hosts, bool quick) {
  lab::LabFile file;
  for (size_t i = 0; i < hosts; i++) file.hosts.push_back({fmt::format("h{}", i + 1), {}, 0, 0});
  MEADOW_TRY(const auto lab, lab::Lab::start(file));
  Figures out;
  out.priority = lab->has_priority();
  out.awake = lab->keeps_awake();
  const size_t last = hosts - 1;
  for (const Duration rtt : {0ms, 10ms, 40ms, 80ms}) {
    MEADOW_TRY_VOID(lab->set_links({.rtt = rtt}));
    const int count = rtt == Duration::zero() ? 1000 : quick ? 20 : 50;
    MEADOW_TRY(auto trips, lab::measure_round_trips(*lab, 0, last, count));
    out.delays.push_back({rtt, std::move(trips)});
  }
  out.stats = lab->stats();
  MEADOW_TRY_VOID(lab->set_links({}));
  for (const double asked : {0.0, 1e9, 1e8, 1e7}) {
    MEADOW_TRY_VOID(lab->set_rate(0, asked, asked));
    MEADOW_TRY_VOID(lab->set_rate(last, asked, asked));
    MEADOW_TRY(const double got, lab::measure_rate(*lab, 0, last, quick ? 300ms : 800ms));
    out.rates.push_back({asked, got});
  }
  return out;
}

void print_table(const Figures& f) {
  fmt::print(
      "round trips, ms            asked    median     p99      max   error of one way, median\n");
  for (const Delay& d : f.delays)
    fmt::print("  {:4} of {:4} came back {:9.1f} {:9.3f} {:8.3f} {:8.3f}   {:.3f}\n",
               d.trips.sorted.size(), d.trips.sent, milliseconds(d.asked),
               milliseconds(d.trips.at(0.5)), milliseconds(d.trips.at(0.99)),
               milliseconds(d.trips.at(1)), d.error_ms(0.5) / 2);
  fmt::print("one TCP stream            asked        payload\n");
  for (const Rate& r : f.rates)
    fmt::print("  {:>28} {:>14}{}\n", lab::rate_text(r.asked), lab::rate_text(r.got),
               r.asked > 0 ? fmt::format("  ({:.1f} %)", 100 * r.got / r.asked) : "  (top rate)");
  fmt::print("packets written late by at most {:.3f} ms; the relay {}; processors {}\n",
             milliseconds(f.stats.worst_delay),
             f.priority ? "goes before ordinary threads (SCHED_FIFO)"
                        : "has no priority here: delays grow when the machine is busy",
             f.awake ? "are kept awake (/dev/cpu_dma_latency)"
                     : "may sleep (no /dev/cpu_dma_latency): delays grow when it is idle");
}

Json to_json(const Figures& f) {
  Json out{{"priority", f.priority},
           {"kept_awake", f.awake},
           {"worst_delivery_ms", milliseconds(f.stats.worst_delay)}};
  for (const Delay& d : f.delays)
    out["round_trips"].push_back({{"asked_ms", milliseconds(d.asked)},
                                  {"sent", d.trips.sent},
                                  {"returned", d.trips.sorted.size()},
                                  {"median_ms", milliseconds(d.trips.at(0.5))},
                                  {"p99_ms", milliseconds(d.trips.at(0.99))},
                                  {"most_ms", milliseconds(d.trips.at(1))},
                                  {"one_way_error_ms", d.error_ms(0.5) / 2}});
  for (const Rate& r : f.rates)
    out["rates"].push_back({{"asked_bits_per_s", r.asked}, {"payload_bits_per_s", r.got}});
  return out;
}

}  // namespace

Result<void> check(size_t hosts, bool json, bool quick) {
  MEADOW_TRY_VOID(lab::check_requirements());
  MEADOW_TRY(const Figures figures, measure(hosts, quick));
  if (json)
    fmt::print("{}\n", to_json(figures).dump());
  else
    print_table(figures);
  return {};
}

}  // namespace meadow::labapp
