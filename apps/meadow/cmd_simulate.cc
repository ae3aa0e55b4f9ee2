// meadow simulate: whole swarms in virtual time, over the placement code of real servers.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "meadow/command.h"
#include "meadow/interrupt.h"
#include "meadow/options.h"
#include "meadow/output_file.h"
#include "meadow/terminal.h"
#include "simulate/churn.h"
#include "simulate/optimum.h"
#include "simulate/plot.h"
#include "simulate/traffic.h"

namespace meadow::apps {
namespace {

using simulate::ChurnOptions;
using simulate::ChurnReport;
using simulate::Plot;
using simulate::Rule;
using simulate::Series;

// Each subcommand writes its picture where `plot` says, if it does.
Result<void> write_plot(const std::string& path, const Plot& plot) {
  if (path.empty()) return {};
  MEADOW_TRY_VOID(write_whole(path, simulate::svg(plot)));
  say("meadow: the picture is in " + path);
  return {};
}

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

// ---- optimum ------------------------------------------------------------------------------------

struct OptimumCommand {
  simulate::OptimumOptions options;
  std::string plot;
  bool json = false;
};

// How many cases reach each percentage of the optimum.
Plot histogram(const simulate::OptimumReport& report) {
  Plot plot;
  plot.title = fmt::format("Throughput against the optimum, {} swarms", report.cases.size());
  plot.x_label = "percent of the optimum (up to)";
  plot.y_label = "swarms";
  plot.kind = Plot::Kind::kBars;
  const auto count = [&](const std::string& name, double simulate::OptimumCase::* value) {
    Series s{name, {}, {}};
    for (int bin = 0; bin < 20; bin++) {
      s.x.push_back(5 * (bin + 1));
      s.y.push_back(0);
    }
    for (const auto& c : report.cases)
      s.y[std::min<size_t>(19,
                           static_cast<size_t>(std::max(0.0, c.*value / c.optimum * 20 - 1e-9)))]++;
    plot.series.push_back(std::move(s));
  };
  count("joins only", &simulate::OptimumCase::joined);
  count("with rebalancing", &simulate::OptimumCase::balanced);
  return plot;
}

Result<ExitCode> run(const OptimumCommand& command) {
  const SystemClock clock;
  ProgressBar bar("swarms", clock, command.json);
  const auto report = simulate::compare_with_optimum(
      command.options, [&](int done) { bar.update(done, command.options.cases); });
  bar.finish();
  uint64_t plans = 0, moves = 0, near = 0;
  for (const auto& c : report.cases) {
    plans += static_cast<uint64_t>(c.plans);
    moves += static_cast<uint64_t>(c.moves);
    near += c.balanced >= 0.9 * c.optimum;
  }
  if (command.json) {
    put(to_line({{"cases", report.cases.size()},
                 {"not_coverable", report.uncoverable},
                 {"joined", {{"mean", report.joined.mean}, {"least", report.joined.least}}},
                 {"balanced", {{"mean", report.balanced.mean}, {"least", report.balanced.least}}},
                 {"after_rebalance",
                  {{"mean", report.after_plan.mean}, {"least", report.after_plan.least}}},
                 {"at_90_percent", near},
                 {"rebalances", plans},
                 {"moves", moves},
                 {"uncovering", report.plans_uncovering},
                 {"below_threshold", report.plans_below}}));
  } else {
    put(table({{"of the optimum", "mean", "least"},
               {"joins only", percent(report.joined.mean), percent(report.joined.least)},
               {"with rebalancing", percent(report.balanced.mean), percent(report.balanced.least)},
               {"right after a rebalance", percent(report.after_plan.mean),
                percent(report.after_plan.least)}}));
    put(fmt::format(
        "{} swarms ({} more could not cover their model); {} of them at 90 % or above; {} "
        "rebalances of {} moves; {} took the last holder from a block, {} gained less than {}\n",
        report.cases.size(), report.uncoverable, near, plans, moves, report.plans_uncovering,
        report.plans_below, percent(command.options.min_gain)));
  }
  MEADOW_TRY_VOID(write_plot(command.plot, histogram(report)));
  return kExitOk;
}

// ---- churn --------------------------------------------------------------------------------------

struct ChurnCommand {
  ChurnOptions options;
  std::string rule = "all", plot;
  std::vector<double> sweep;
  bool json = false;
};

Json json_of(const ChurnReport& r, Rule rule, double min_gain) {
  return {{"rule", std::string(name(rule))},
          {"min_gain", min_gain},
          {"tokens_per_s", r.tokens_per_s},
          {"of_capacity", r.of_capacity},
          {"down_share", r.down_share},
          {"joins", r.joins},
          {"ends", r.ends},
          {"moves", r.moves},
          {"plans", r.plans},
          {"moves_below_threshold", r.moves_below},
          {"moves_back", r.moves_back},
          {"moves_crossed", r.moves_crossed},
          {"blocks_uncovered", r.uncovered},
          {"blocks_loaded", r.blocks_loaded},
          {"blocks_kept", r.blocks_kept},
          {"last_move_hours", r.last_move_hours},
          {"looks", r.looks},
          {"searches", r.searches},
          {"look_mean_ms", r.look_mean_ms},
          {"look_most_ms", r.look_most_ms}};
}

std::vector<std::string> row_of(const ChurnReport& r, const std::string& what) {
  return {what,
          fmt::format("{:.2f}", r.tokens_per_s),
          percent(r.of_capacity),
          fmt::format("{:.2f} %", 100 * r.down_share),
          fmt::format("{}", r.joins),
          fmt::format("{}", r.moves),
          fmt::format("{}/{}/{}", r.moves_below, r.moves_back, r.uncovered),
          fmt::format("{:.3f}/{:.1f}", r.look_mean_ms, r.look_most_ms)};
}
const std::vector<std::string> kChurnHead = {
    "",      "tokens/s", "of capacity",        "down",
    "joins", "moves",    "low/back/uncovered", "look ms mean/most"};

Result<ExitCode> run(const ChurnCommand& command) {
  if (command.options.longest_span < command.options.shortest_span)
    return fail(Code::kInvalidArgument, "--longest {} is less than --shortest {}",
                command.options.longest_span, command.options.shortest_span);
  std::vector<std::pair<Rule, double>> runs;
  if (!command.sweep.empty()) {
    for (const double gain : command.sweep) runs.emplace_back(Rule::kPlanned, gain);
  } else if (command.rule == "all") {
    for (const Rule rule : {Rule::kPlanned, Rule::kJoinsOnly, Rule::kNone, Rule::kRandom})
      runs.emplace_back(rule, command.options.min_gain);
  } else {
    runs.emplace_back(*simulate::rule_from(command.rule), command.options.min_gain);
  }
  Plot plot;
  plot.title =
      fmt::format("Throughput under churn: {} servers, {} blocks, life {:g} h",
                  command.options.servers, command.options.n_blocks, command.options.life_hours);
  plot.x_label = "hours";
  plot.y_label = "tokens/s of the whole swarm";
  const SystemClock clock;
  std::vector<std::vector<std::string>> rows = {kChurnHead};
  for (const auto& [rule, gain] : runs) {
    ChurnOptions options = command.options;
    options.rule = rule;
    options.min_gain = gain;
    ProgressBar bar(std::string(name(rule)), clock, command.json);
    const ChurnReport report = run_churn(options, [&](double share) {
      bar.update(static_cast<int64_t>(share * 1000), 1000);
      return !Interrupt::token().cancelled();
    });
    bar.finish();
    if (Interrupt::token().cancelled()) return fail(Code::kCancelled, "interrupted");
    if (command.json) put(to_line(json_of(report, rule, gain)));
    const std::string what =
        command.sweep.empty() ? std::string(name(rule)) : fmt::format("gain {:g}", gain);
    rows.push_back(row_of(report, what));
    Series series = thinned(report.throughput, 400);
    series.name = what;
    plot.series.push_back(std::move(series));
  }
  if (!command.json) put(table(rows));
  MEADOW_TRY_VOID(write_plot(command.plot, plot));
  return kExitOk;
}

// ---- traffic ------------------------------------------------------------------------------------

struct TrafficCommand {
  simulate::TrafficOptions options;
  std::vector<int> sizes = {10, 30, 100};
  std::string plot;
  bool json = false;
};

Result<ExitCode> run(const TrafficCommand& command) {
  std::vector<std::vector<std::string>> rows = {
      {"servers", "kB per peer and minute", "exchanges", "newcomer known", "kill known"}};
  Plot plot;
  plot.title = "Directory traffic of a peer";
  plot.x_label = "servers";
  plot.y_label = "kB a minute";
  plot.log_x = plot.log_y = true;
  Series series{"sent and received", {}, {}};
  for (const int size : command.sizes) {
    simulate::TrafficOptions options = command.options;
    options.servers = size;
    const simulate::TrafficReport r = measure_traffic(options);
    if (command.json)
      put(to_line({{"servers", size},
                   {"bytes_per_peer_minute", r.bytes_per_peer_minute},
                   {"calls_per_peer_minute", r.calls_per_peer_minute},
                   {"known_seconds", r.known_seconds},
                   {"gone_seconds", r.gone_seconds},
                   {"complete", r.complete}}));
    rows.push_back({fmt::format("{}", size), fmt::format("{:.1f}", r.bytes_per_peer_minute / 1e3),
                    fmt::format("{:.1f}", r.calls_per_peer_minute),
                    fmt::format("{:.1f} s", r.known_seconds),
                    fmt::format("{:.1f} s", r.gone_seconds)});
    series.x.push_back(size);
    series.y.push_back(r.bytes_per_peer_minute / 1e3);
  }
  if (!command.json) put(table(rows));
  plot.series.push_back(std::move(series));
  MEADOW_TRY_VOID(write_plot(command.plot, plot));
  return kExitOk;
}

void add_swarm_options(CLI::App& command, ChurnOptions& o) {
  command.add_option("--servers", o.servers, "Servers at a time")
      ->check(CLI::Range(1, 20'000))
      ->capture_default_str();
  command.add_option("--blocks", o.n_blocks, "Blocks of the model")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_option("--hours", o.hours, "Virtual time")
      ->check(CLI::Range(0.01, 1e6))
      ->capture_default_str();
  command.add_option("--life", o.life_hours, "Mean life of a server, in hours")
      ->check(CLI::Range(0.01, 1e6))
      ->capture_default_str();
  command.add_option("--crashes", o.crash_share, "Share of servers that end without a word")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command.add_option("--shortest", o.shortest_span, "Blocks of a server, at least")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_option("--longest", o.longest_span, "Blocks of a server, at most")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_option("--load", o.load_seconds, "Seconds to load a block")
      ->check(CLI::Range(0.0, 1e4))
      ->capture_default_str();
  command.add_option("--news", o.news_seconds, "Mean seconds until another server knows")
      ->check(CLI::Range(0.01, 600.0))
      ->capture_default_str();
  command.add_option("--loss", o.loss, "Share of messages lost")
      ->check(CLI::Range(0.0, 0.9))
      ->capture_default_str();
  command.add_option("--liars", o.lie_share, "Share of servers that announce 10 times their speed")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command.add_option("--gain", o.min_gain, "Least gain of a rebalance (0.1: a tenth)")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  command.add_option("--seed", o.seed, "The same seed gives the same run")->capture_default_str();
}

template <class Command>
void finish(CLI::App& sub, Selection& selection, const std::shared_ptr<Command>& options) {
  sub.add_option("--plot", options->plot, "Write a picture (SVG) there")->type_name("FILE");
  add_json_option(sub, options->json);
  sub.callback([&selection, options] {
    selection.json = &options->json;
    selection.run = [options]() -> Result<ExitCode> {
      if (!options->plot.empty()) MEADOW_TRY_VOID(check_can_write(options->plot));
      return run(*options);
    };
  });
}

void add_optimum(CLI::App& parent, Selection& selection) {
  auto options = std::make_shared<OptimumCommand>();
  CLI::App* sub =
      parent.add_subcommand("optimum", "Small swarms: what placement reaches of the best there is");
  sub->add_option("--cases", options->options.cases, "Swarms to draw")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  sub->add_option("--gain", options->options.min_gain, "Least gain of a rebalance")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  sub->add_option("--seed", options->options.seed, "The same seed gives the same swarms")
      ->capture_default_str();
  finish(*sub, selection, options);
}

void add_churn(CLI::App& parent, Selection& selection) {
  auto options = std::make_shared<ChurnCommand>();
  CLI::App* sub = parent.add_subcommand(
      "churn", "A swarm whose servers come and go: throughput over time, by rule");
  add_swarm_options(*sub, options->options);
  sub->add_option("--rule", options->rule, "planned, joins-only, none, random, or all of them")
      ->check(CLI::IsMember({"all", "planned", "joins-only", "none", "random"}))
      ->capture_default_str();
  sub->add_option("--sweep", options->sweep, "Compare these gains under the planned rule")
      ->delimiter(',')
      ->type_name("GAIN,...");
  finish(*sub, selection, options);
}

void add_traffic(CLI::App& parent, Selection& selection) {
  auto options = std::make_shared<TrafficCommand>();
  CLI::App* sub = parent.add_subcommand(
      "traffic", "Real memberships over a simulated network: bytes, and how fast news travels");
  sub->add_option("--sizes", options->sizes, "Servers, for each a run")
      ->delimiter(',')
      ->check(CLI::Range(2, 2000))
      ->capture_default_str();
  sub->add_option("--minutes", options->options.minutes, "Virtual time measured")
      ->check(CLI::Range(0.1, 600.0))
      ->capture_default_str();
  sub->add_option("--seed", options->options.seed, "The same seed gives the same run")
      ->capture_default_str();
  finish(*sub, selection, options);
}

}  // namespace

void add_simulate(CLI::App& program, Selection& selection) {
  CLI::App* command =
      program.add_subcommand("simulate", "Swarms in virtual time, by the code of real servers");
  command->require_subcommand(1);
  add_optimum(*command, selection);
  add_churn(*command, selection);
  add_traffic(*command, selection);
}

}  // namespace meadow::apps
