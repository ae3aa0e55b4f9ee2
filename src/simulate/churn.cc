#include "simulate/churn.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "base/bytes.h"
#include "base/check.h"
#include "base/rng.h"
#include "simulate/fleet.h"
#include "simulate/world.h"
#include "swarm/lease.h"
#include "swarm/placement.h"

namespace meadow::simulate {
namespace {

using swarm::Move;
using swarm::Placed;
using swarm::Plan;

constexpr size_t kNotified = 256;  // servers up to which each is woken by every change
constexpr double kLieFactor = 10;
constexpr double kUnits = 1000;

// Time that this thread computed, in ms: others on the machine do not count.
double thread_ms() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) / 1e6;
}

// At most some hundred years: what a Duration holds.
Duration hours_of(double h) { return from_seconds(std::min(h, 1e6) * 3600); }

// Plans by what they were made of: in small swarms all servers make the same one.
class PlanMemory {
 public:
  Plan operator()(int32_t n_blocks, std::span<const Placed> servers,
                  const swarm::PlanOptions& options) {
    const Key key = key_of(servers);
    if (const auto it = plans_.find(key); it != plans_.end()) return it->second;
    if (plans_.size() > 2000) plans_.clear();
    return plans_[key] = swarm::plan_moves(n_blocks, servers, options);
  }

 private:
  struct Key {
    uint64_t a = 0, b = 0;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const { return key.a; }
  };
  static Key key_of(std::span<const Placed> servers) {
    Key key;
    for (const Placed& s : servers) {
      Rng rng(std::hash<PeerId>()(s.id) ^ (static_cast<uint64_t>(s.blocks.first) << 32) ^
              static_cast<uint64_t>(s.blocks.last * 4 + s.online * 2 + s.movable));
      key.a += rng.next();
      key.b += rng.next();
    }
    return key;
  }
  std::unordered_map<Key, Plan, Hash> plans_;
};

// What the servers online pass now: changed by every event, integrated over time.
class Truth {
 public:
  explicit Truth(int32_t n_blocks)
      : sums_(static_cast<size_t>(n_blocks)), holders_(static_cast<size_t>(n_blocks)) {}

  void serve(BlockRange blocks, double speed, int sign) {
    for (int32_t b = blocks.first; b < blocks.last; b++) {
      sums_[static_cast<size_t>(b)] += sign * std::llround(speed * kUnits);
      holders_[static_cast<size_t>(b)] += sign;
    }
    now_ = static_cast<double>(*std::min_element(sums_.begin(), sums_.end())) / kUnits;
    whole_ = std::ranges::all_of(holders_, [](int n) { return n > 0; });
  }
  void present(double speed, int32_t length, int sign) { capacity_ += sign * speed * length; }

  double throughput() const { return now_; }
  bool whole() const { return whole_; }
  int holders(int32_t block) const { return holders_[static_cast<size_t>(block)]; }
  double capacity() const { return capacity_ / static_cast<double>(sums_.size()); }

 private:
  std::vector<int64_t> sums_;
  std::vector<int> holders_;
  double now_ = 0, capacity_ = 0;
  bool whole_ = false;
};

class Churn {
 public:
  Churn(const ChurnOptions& options, const std::function<bool(double)>& go_on)
      : options_(options),
        go_on_(go_on),
        rng_(options.seed),
        fleet_(options.n_blocks, NewsDelay(options.news_seconds, options.loss, options.seed)),
        truth_(options.n_blocks),
        start_(world_.now()),
        accounted_(start_) {}

  ChurnReport run() {
    // The first come one after another within the first hour, as swarms begin.
    const double within = std::min(3600.0, options_.hours * 3600 / 4);
    for (int i = 0; i < options_.servers; i++)
      world_.post_after(from_seconds(within * i / options_.servers), [this] { join(true); });
    const TimePoint end = start_ + hours_of(options_.hours);
    begin_ = start_ + std::min<Duration>(hours_of(1.5), hours_of(options_.hours) / 4);
    const Duration sample =
        hours_of(options_.hours) / static_cast<int64_t>(std::max<size_t>(options_.samples, 1));
    world_.post_after(sample, [this, sample] { take_sample(sample); });
    uint64_t asked = 0;
    world_.run_until(end, [&] {
      if (!go_on_ || ++asked % 1000 != 0) return false;
      return !go_on_(seconds(world_.now() - start_) / (options_.hours * 3600));
    });
    account();
    finish();
    return std::move(report_);
  }

 private:
  // ---- servers come and go ----------------------------------------------------------------------

  double exponential(double mean) { return -mean * std::log(1 - rng_.uniform()); }

  void join(bool first) {
    SimServer server;
    server.id.bytes = sha256(fmt::format("{} {}", options_.seed, report_.joins)).bytes;
    server.length =
        std::min(options_.n_blocks, options_.shortest_span +
                                        static_cast<int32_t>(rng_.below(static_cast<uint64_t>(
                                            options_.longest_span - options_.shortest_span + 1))));
    server.speed = options_.slowest * std::pow(options_.fastest / options_.slowest, rng_.uniform());
    server.announced_speed = server.speed * (rng_.uniform() < options_.lie_share ? kLieFactor : 1);
    server.alive = true;
    SimServer& s = fleet_.add(std::move(server));
    s.blocks = choose(s, first);
    report_.joins++;
    last_change_ = world_.now();
    if (options_.rule == Rule::kPlanned) {
      swarm::RebalanceOptions rule;
      rule.plan.min_gain = options_.min_gain;
      if (options_.servers <= static_cast<int>(kNotified)) rule.planner = std::ref(plans_);
      s.rule = std::make_unique<swarm::Rebalancer>(s.id, rule, Rng(rng_.next()));
    }
    truth_.present(s.speed, s.length, +1);
    announce(s, false);
    load(s, s.length);
    world_.post_after(hours_of(exponential(options_.life_hours)),
                      [this, number = s.number] { end(number); });
  }

  BlockRange choose(const SimServer& s, bool first) {
    const bool anywhere =
        options_.rule == Rule::kRandom || (options_.rule == Rule::kNone && !first);
    if (anywhere) {
      const auto at =
          static_cast<int32_t>(rng_.below(static_cast<uint64_t>(options_.n_blocks - s.length + 1)));
      return {at, at + s.length};
    }
    std::vector<swarm::Throughput> spans;
    for (const Placed& other : fleet_.view(s.number, world_.now()))
      spans.push_back({other.blocks, other.tokens_per_s});
    return swarm::choose_blocks(swarm::block_throughputs(options_.n_blocks, spans), s.length);
  }

  void end(uint64_t number) {
    SimServer& s = fleet_.at(number);
    account();
    truth_.serve(s.serving, s.speed, -1);
    truth_.present(s.speed, s.length, -1);
    s.serving = {};
    s.alive = s.online = false;
    s.rule.reset();
    report_.ends++;
    last_change_ = world_.now();
    // Without a word it is known once the lease has run out, which was renewed some time ago.
    Duration known{};
    if (rng_.uniform() < options_.crash_share)
      known = swarm::kLeaseTtl - from_seconds(seconds(swarm::kLeaseRenewal) * rng_.uniform());
    fleet_.announce(s, world_.now() + known, true);
    notify(s, world_.now() + known);
    world_.post_after(known + fleet_.delay().most() + 1s, [this] { fleet_.forget(world_.now()); });
    world_.post_after(hours_of(exponential(options_.gap_hours)), [this] { join(false); });
  }

  // Reads `blocks` blocks; until then only what was kept is served.
  void load(SimServer& s, int32_t blocks) {
    const uint64_t loading = ++s.loading;
    world_.post_after(from_seconds(options_.load_seconds * blocks),
                      [this, number = s.number, loading] { loaded(number, loading); });
  }
  void loaded(uint64_t number, uint64_t loading) {
    if (!known(number)) return;
    SimServer& s = fleet_.at(number);
    if (!s.alive || s.loading != loading) return;
    account();
    if (s.came_at == TimePoint{}) last_change_ = world_.now();  // one more that can be moved
    truth_.serve(s.serving, s.speed, -1);
    s.serving = s.blocks;
    truth_.serve(s.serving, s.speed, +1);
    s.online = true;
    announce(s, false);
    if (s.rule) wake_at(s, world_.now());
  }

  // ---- looking and moving -----------------------------------------------------------------------

  bool known(uint64_t number) const { return std::ranges::binary_search(fleet_.present(), number); }
  void announce(SimServer& s, bool ended) {
    fleet_.announce(s, world_.now(), ended);
    notify(s, world_.now());
  }
  // Everybody looks when the news is there; in large swarms, where something is always new, they
  // look at times of their own.
  void notify(const SimServer& s, TimePoint said) {
    if (options_.rule != Rule::kPlanned || options_.servers > static_cast<int>(kNotified)) return;
    for (const uint64_t other : fleet_.present()) {
      if (other == s.number || !fleet_.at(other).alive) continue;
      const TimePoint when = said + fleet_.delay().of(s.number, said, other);
      world_.post_at(when, [this, other] {
        if (known(other) && fleet_.at(other).rule) look(fleet_.at(other));
      });
    }
  }
  void wake_at(SimServer& s, TimePoint when) {
    const uint64_t wake = ++s.wake;
    world_.post_at(when, [this, number = s.number, wake] {
      if (known(number) && fleet_.at(number).wake == wake) look(fleet_.at(number));
    });
  }

  void look(SimServer& s) {
    if (!s.alive || !s.rule) return;
    const auto& view = fleet_.view(s.number, world_.now());
    const uint64_t looks = s.rule->looks(), searches = s.rule->searches();
    const double began = thread_ms();
    const auto move = s.rule->decide(options_.n_blocks, view, world_.now());
    const double ms = thread_ms() - began;
    const bool looked = s.rule->looks() > looks;
    if (looked) {
      report_.looks++;
      report_.searches += s.rule->searches() - searches;
      report_.look_mean_ms += ms;
      report_.look_most_ms = std::max(report_.look_most_ms, ms);
    }
    if (move) {
      make(s, *move);
      return;
    }
    // Looks at an unchanged view with nothing planned cannot change anything: left out where a
    // change wakes everybody.
    const bool notified = options_.servers <= static_cast<int>(kNotified);
    if (!notified || !looked || !s.rule->plan().empty()) wake_at(s, s.rule->next_look());
  }

  void make(SimServer& s, const Move& move) {
    MEADOW_CHECK(s.online && s.blocks == move.from);
    const Plan& plan = s.rule->plan();
    account();
    report_.moves++;
    report_.last_move_hours = seconds(world_.now() - start_) / 3600;
    if (plan.after < plan.now * (1 + options_.min_gain) - 1e-9) report_.moves_below++;
    // With all that happened up to a minute before the first move known to all by then.
    if (move.to == s.came_from && last_change_ + 60s < s.came_at) report_.moves_back++;
    if (!(plan == last_plan_)) {
      if (!last_plan_.empty() && world_.now() < last_move_ + 2 * fleet_.delay().most())
        report_.moves_crossed++;
      last_plan_ = plan;
      report_.plans++;
    }
    last_move_ = world_.now();
    s.came_from = move.from;
    s.came_at = world_.now();
    const BlockRange kept{
        std::max(move.from.first, move.to.first),
        std::max(std::max(move.from.first, move.to.first), std::min(move.from.last, move.to.last))};
    const bool was_whole = truth_.whole();
    truth_.serve(s.serving, s.speed, -1);
    s.serving = kept;
    truth_.serve(s.serving, s.speed, +1);
    if (was_whole)
      for (int32_t b = move.from.first; b < move.from.last; b++)
        report_.uncovered += truth_.holders(b) == 0;
    report_.blocks_kept += static_cast<uint64_t>(kept.size());
    report_.blocks_loaded += static_cast<uint64_t>(s.length - kept.size());
    s.blocks = move.to;
    s.online = false;
    announce(s, false);
    load(s, s.length - kept.size());
  }

  // ---- accounts ---------------------------------------------------------------------------------

  void account() {
    const TimePoint now = world_.now();
    if (now > begin_) {
      const double dt = seconds(now - std::max(accounted_, begin_));
      time_ += dt;
      served_ += dt * truth_.throughput();
      possible_ += dt * truth_.capacity();
      down_ += truth_.whole() ? 0 : dt;
    }
    accounted_ = now;
  }
  void take_sample(Duration every) {
    account();
    const double hours = seconds(world_.now() - start_) / 3600;
    report_.throughput.x.push_back(hours);
    report_.throughput.y.push_back(truth_.throughput());
    report_.capacity.x.push_back(hours);
    report_.capacity.y.push_back(truth_.capacity());
    world_.post_after(every, [this, every] { take_sample(every); });
  }
  void finish() {
    if (time_ > 0) {
      report_.tokens_per_s = served_ / time_;
      report_.of_capacity = possible_ > 0 ? served_ / possible_ : 0;
      report_.down_share = down_ / time_;
    }
    if (report_.looks > 0) report_.look_mean_ms /= static_cast<double>(report_.looks);
    report_.throughput.name = std::string(name(options_.rule));
    report_.capacity.name = "capacity / blocks";
  }

  const ChurnOptions options_;
  const std::function<bool(double)> go_on_;
  Rng rng_;
  SimWorld world_;
  Fleet fleet_;
  Truth truth_;
  PlanMemory plans_;
  const TimePoint start_;
  TimePoint begin_;  // of the accounts: once the swarm stands
  TimePoint accounted_;
  double time_ = 0, served_ = 0, possible_ = 0, down_ = 0;
  TimePoint last_change_;  // a server came or went
  Plan last_plan_;
  TimePoint last_move_;
  ChurnReport report_;
};

}  // namespace

std::string_view name(Rule rule) {
  switch (rule) {
    case Rule::kPlanned:
      return "planned";
    case Rule::kJoinsOnly:
      return "joins-only";
    case Rule::kNone:
      return "none";
    case Rule::kRandom:
      return "random";
  }
  return "";
}

std::optional<Rule> rule_from(std::string_view text) {
  for (const Rule rule : {Rule::kPlanned, Rule::kJoinsOnly, Rule::kNone, Rule::kRandom})
    if (name(rule) == text) return rule;
  return std::nullopt;
}

ChurnReport run_churn(const ChurnOptions& options, const std::function<bool(double)>& go_on) {
  return Churn(options, go_on).run();
}

}  // namespace meadow::simulate
