// The kernel tables of docs/benchmarks.md: how near the kernels come to what memory and the
// arithmetic units give, and what the fixed order of sums costs.
//   bench_kernels [--types Q4_0,F16] [--tokens 1,512] [--threads 1,2] [--rounds 5] [--json]
//   bench_kernels --attention [--cache f16,f32,q8_0] [--depths 512,4096,8192]
// Measures the bounds (stream read, peaks) in the same rounds. Prints markdown, or JSON.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cases.h"
#include "measurement.h"

namespace meadow::bench {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  bool attention = false, json = false;
  std::vector<std::string> types, cache{"f16", "f32", "q8_0"};
  std::vector<int64_t> tokens{1, 2, 4, 8, 16, 32, 128, 512};
  std::vector<int64_t> depths{512, 4096, 8192};
  std::vector<int> threads{1, 2};
  ProductShape product{4096, 11008};
  AttentionShape heads{64, 32, 8};
  int64_t prefill = 512;
  int64_t cycle_mb = 160;
  int rounds = 5;
};

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

// Empty if there is no such type.
std::optional<DType> type_named(const std::string& name) {
  for (const DTypeInfo& t : kDTypes)
    if (upper(std::string(t.name)) == upper(name)) return t.type;
  return std::nullopt;
}

std::vector<DType> types_named(const std::vector<std::string>& names) {
  std::vector<DType> types;
  for (const std::string& name : names) types.push_back(*type_named(name));
  if (names.empty())
    for (const DTypeInfo& t : kDTypes) types.push_back(t.type);
  return types;
}

std::string share(double value) { return value > 0 ? fmt::format("{:.2f}", value) : "-"; }

void print_markdown(const std::vector<Case>& cases, const Report& report, const Options& options) {
  const auto target = kernels::active_target();
  fmt::print("Kernels: {}; {} rounds, medians [min-max]\n\n", kernels::name(target),
             options.rounds);
  fmt::print(
      "| threads | stream read, GB/s | fma f32, GFLOP/s | 8-bit: {}, GOP/s | 16-bit: {}, "
      "GOP/s |\n|---|---|---|---|---|\n",
      instruction(Unit::kNarrow, target), instruction(Unit::kWide, target));
  for (const Bounds& b : report.bounds)
    fmt::print("| {} | {:.1f} | {:.0f} | {:.0f} | {:.0f} |\n", b.threads, b.stream, b.fma, b.narrow,
               b.wide);
  fmt::print(
      "\n| {} | threads | {} | GB/s | of stream | GFLOP/s | of peak | time ÷ order-free |\n"
      "|---|---|---|---|---|---|---|---|\n",
      options.attention ? "kernel, cache" : "weights", options.attention ? "depth" : "tokens");
  for (size_t i = 0; i < cases.size(); i++) {
    const Case& c = cases[i];
    const Outcome& o = report.outcomes[i];
    fmt::print("| {} | {} | {} | {:.1f} | {:.2f} | {:.1f} [{:.1f}-{:.1f}] | {} | {} |\n",
               options.attention ? c.family + " " + c.name : c.name, c.threads, c.size, o.gb_per_s,
               o.share_of_stream, o.gflop_per_s, o.lowest, o.highest, share(o.share_of_peak),
               share(o.price));
  }
}

void print_json(const std::vector<Case>& cases, const Report& report) {
  Json json{{"target", kernels::name(kernels::active_target())}};
  for (const Bounds& b : report.bounds)
    json["bounds"].push_back({{"threads", b.threads},
                              {"stream_gb_per_s", b.stream},
                              {"fma_gflop_per_s", b.fma},
                              {"narrow_gop_per_s", b.narrow},
                              {"wide_gop_per_s", b.wide}});
  for (size_t i = 0; i < cases.size(); i++) {
    const Case& c = cases[i];
    const Outcome& o = report.outcomes[i];
    json["cases"].push_back({{"family", c.family},
                             {"type", c.name},
                             {"size", c.size},
                             {"threads", c.threads},
                             {"gb_per_s", o.gb_per_s},
                             {"gflop_per_s", o.gflop_per_s},
                             {"share_of_stream", o.share_of_stream},
                             {"share_of_peak", o.share_of_peak},
                             {"time_by_order_free", o.price}});
  }
  fmt::print("{}\n", json.dump());
}

void add_options(CLI::App& app, Options& o) {
  const CLI::Validator known(
      [](std::string& name) { return type_named(name) ? "" : "there is no type " + name; }, "TYPE");
  const auto positive = CLI::Range(int64_t{1}, int64_t{1} << 20);
  app.add_flag("--attention", o.attention, "Attention instead of products");
  app.add_flag("--json", o.json, "JSON instead of markdown");
  app.add_option("--types", o.types, "Weight types (default: all)")->delimiter(',')->check(known);
  app.add_option("--tokens", o.tokens)->delimiter(',')->check(positive)->capture_default_str();
  app.add_option("--threads", o.threads)->delimiter(',')->check(CLI::Range(1, 256));
  app.add_option("--k", o.product.k, "Columns; a multiple of 256")->check(positive);
  app.add_option("--m", o.product.m, "Rows")->check(positive)->capture_default_str();
  app.add_option("--cache", o.cache, "Cache types")->delimiter(',')->check(known);
  app.add_option("--depths", o.depths, "Positions in the cache")->delimiter(',')->check(positive);
  app.add_option("--prefill", o.prefill, "Queries at once")->check(positive);
  app.add_option("--head-dim", o.heads.head_dim)->check(positive);
  app.add_option("--heads", o.heads.n_head)->check(positive);
  app.add_option("--kv-heads", o.heads.n_head_kv)->check(positive);
  app.add_option("--cycle", o.cycle_mb, "MB of weights or caches to walk through; 0: stay in cache")
      ->check(CLI::Range(0, 1 << 16))
      ->capture_default_str();
  app.add_option("--rounds", o.rounds)->check(CLI::Range(1, 1000))->capture_default_str();
}

// Empty, or what is wrong with the shapes.
std::string complaint(const Options& o) {
  if (o.product.k % 256 != 0) return "--k: a multiple of 256";
  if (o.heads.n_head % o.heads.n_head_kv != 0) return "--heads: a multiple of --kv-heads";
  return {};
}

int run(int argc, char** argv) {
  Options o;
  CLI::App app("Speed of the kernels against the bounds of this machine");
  add_options(app, o);
  CLI11_PARSE(app, argc, argv);
  if (const std::string wrong = complaint(o); !wrong.empty()) {
    fmt::print(stderr, "bench_kernels: {}\n", wrong);
    return 2;
  }
  if (const auto chosen = kernels::check_target_choice(); !chosen) {
    fmt::print(stderr, "bench_kernels: {}\n", chosen.error().text());
    return 2;
  }
  const int64_t cycle = o.cycle_mb * 1000000;
  const auto cases =
      o.attention
          ? attention_cases(o.heads, types_named(o.cache), o.depths, o.prefill, o.threads, cycle)
          : product_cases(o.product, types_named(o.types), o.tokens, o.threads, cycle);
  const Report report = measure(cases, o.threads, o.rounds);
  o.json ? print_json(cases, report) : print_markdown(cases, report, o);
  return 0;
}

}  // namespace
}  // namespace meadow::bench

int main(int argc, char** argv) { return meadow::bench::run(argc, argv); }
