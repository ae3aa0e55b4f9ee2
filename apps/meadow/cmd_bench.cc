// meadow bench: how fast this machine runs a model whole, and how fast it reads memory.
#include <memory>

#include "kernels/target.h"
#include "meadow/bench_machine.h"
#include "meadow/bench_runs.h"
#include "meadow/command.h"
#include "meadow/interrupt.h"
#include "meadow/options.h"

namespace meadow::apps {
namespace {

struct BenchCommand {
  std::string file;
  std::string cache = "f16";
  int64_t prompt = 512, gen = 64, repeat = 3;
  std::vector<int64_t> depths = {0}, sequences;
  ComputeOptions compute;
  bool stream = false, first_token = false, start_here = false;
  bool json = false;

  DType cache_type() const { return cache_type_of(cache); }
  BenchPlan plan() const {
    return {prompt, gen, depths, sequences, cache_type(), compute.effective_threads(), compute.pin};
  }
};

struct Measured {
  BenchTest test;
  Spread tokens_per_s;
  double gb_per_s = 0;  // of decoding
};

struct Report {
  std::vector<StreamSpeed> stream;  // empty: not asked for
  std::vector<Measured> tests;
  uint64_t weight_bytes_per_token = 0;
  std::vector<StartTimes> starts;  // of the first token

  // Of the bandwidth at all threads; 0 if that was not measured.
  double share(double gb_per_s) const {
    return stream.empty() ? 0 : gb_per_s / stream.back().gb_per_s;
  }
};

// Repeats are the outer loop, so that all tests see the same machine.
Result<void> measure_model(const BenchCommand& command, Report& report) {
  const SystemClock clock;
  const BenchPlan plan = command.plan();
  const std::vector<BenchTest> tests = tests_of(plan);
  if (tests.empty()) return {};
  MEADOW_TRY(auto file, format::ModelFile::open(command.file));
  MEADOW_TRY(const auto model, BenchModel::load(std::move(file), plan));
  MEADOW_TRY_VOID(model->warm_up(plan));
  std::vector<std::vector<double>> speeds(tests.size());
  ProgressBar bar("bench", clock);
  int64_t done = 0;
  for (int64_t round = 0; round < command.repeat; round++)
    for (size_t i = 0; i < tests.size(); i++) {
      MEADOW_TRY(const Duration time, model->run(tests[i], clock, &Interrupt::token()));
      speeds[i].push_back(static_cast<double>(tests[i].tokens()) / seconds(time));
      bar.update(++done, command.repeat * static_cast<int64_t>(tests.size()));
    }
  bar.finish();
  for (size_t i = 0; i < tests.size(); i++) {
    Measured m{tests[i], spread(speeds[i]), 0};
    if (tests[i].kind != BenchTest::kPrefill)
      m.gb_per_s = m.tokens_per_s.median / static_cast<double>(tests[i].sequences) *
                   static_cast<double>(model->bytes_per_step(tests[i])) / 1e9;
    report.tests.push_back(m);
  }
  report.weight_bytes_per_token = model->weight_bytes_per_token();
  return {};
}

Result<void> measure_starts(const BenchCommand& command, Report& report) {
  const SystemClock clock;
  const std::vector<std::string> arguments = {
      command.file,   "--start-here", "--threads", std::to_string(command.plan().threads),
      "--cache-type", command.cache};
  MEADOW_TRY_VOID(measure_start(arguments, clock));  // brings the file into the page cache
  for (int64_t i = 0; i < command.repeat; i++) {
    MEADOW_TRY(const StartTimes times, measure_start(arguments, clock));
    report.starts.push_back(times);
  }
  return {};
}

Spread of_starts(const Report& report, double StartTimes::* part) {
  std::vector<double> values;
  for (const StartTimes& times : report.starts) values.push_back(times.*part);
  return spread(values);
}

constexpr std::pair<const char*, double StartTimes::*> kStartParts[] = {
    {"first token", &StartTimes::total},
    {"  map", &StartTimes::map},
    {"  tokenizer", &StartTimes::tokenizer},
    {"  weights", &StartTimes::weights},
    {"  decode", &StartTimes::decode}};

std::string target_name() { return std::string(kernels::name(kernels::active_target())); }

std::string human(const BenchCommand& command, const Report& report) {
  std::string out;
  if (!report.tests.empty()) {
    std::vector<std::vector<std::string>> rows = {
        {"", "tokens/s", "least", "most", "reads", "of stream"}};
    for (const Measured& m : report.tests) {
      std::vector<std::string> row = {m.test.name(), fmt::format("{:.1f}", m.tokens_per_s.median),
                                      fmt::format("{:.1f}", m.tokens_per_s.least),
                                      fmt::format("{:.1f}", m.tokens_per_s.most)};
      row.push_back(m.gb_per_s > 0 ? fmt::format("{:.2f} GB/s", m.gb_per_s) : "");
      row.push_back(m.gb_per_s > 0 && !report.stream.empty()
                        ? fmt::format("{:.2f}", report.share(m.gb_per_s))
                        : "");
      rows.push_back(std::move(row));
    }
    out += table(rows) +
           fmt::format("a token reads {} of weights\n", human_bytes(report.weight_bytes_per_token));
  }
  if (!report.starts.empty()) {
    std::vector<std::vector<std::string>> rows = {{"fresh process", "ms", "least", "most"}};
    for (const auto& [name, part] : kStartParts) {
      const Spread s = of_starts(report, part);
      rows.push_back({name, fmt::format("{:.1f}", s.median), fmt::format("{:.1f}", s.least),
                      fmt::format("{:.1f}", s.most)});
    }
    out += table(rows);
  }
  for (const StreamSpeed& s : report.stream)
    out += fmt::format(
        "stream, {} thread{}: {:.1f} GB/s ({}), {:.1f} with plain loads\n", s.threads,
        s.threads == 1 ? "" : "s", s.gb_per_s,
        s.prefetch_ahead ? fmt::format("prefetch {} bytes ahead", s.prefetch_ahead) : "plain loads",
        s.plain_gb_per_s);
  if (report.tests.empty() && report.starts.empty()) return out;
  return out + fmt::format("{} threads, {} cache, kernels {}, median of {}\n",
                           command.plan().threads, command.cache, target_name(), command.repeat);
}

Json as_json(const BenchCommand& command, const Report& report) {
  Json out = {{"file", command.file},        {"prompt", command.prompt},
              {"gen", command.gen},          {"threads", command.plan().threads},
              {"cache_type", command.cache}, {"cpu_target", target_name()},
              {"repeat", command.repeat}};
  if (!report.tests.empty()) out["weight_bytes_per_token"] = report.weight_bytes_per_token;
  for (const Measured& m : report.tests) {
    Json row = {{"test", m.test.kind == BenchTest::kPrefill  ? "prefill"
                         : m.test.kind == BenchTest::kDecode ? "decode"
                                                             : "parallel"},
                {"steps", m.test.steps},
                {"depth", m.test.depth},
                {"sequences", m.test.sequences},
                {"tokens_per_s", m.tokens_per_s.median},
                {"least", m.tokens_per_s.least},
                {"most", m.tokens_per_s.most}};
    if (m.gb_per_s > 0) row["gb_per_s"] = m.gb_per_s;
    if (m.gb_per_s > 0 && !report.stream.empty()) row["share_of_stream"] = report.share(m.gb_per_s);
    // The plainest of each kind also by name.
    if (m.test.kind == BenchTest::kPrefill) out["prefill_tokens_per_s"] = m.tokens_per_s.median;
    if (m.test.kind == BenchTest::kDecode && !out.contains("decode_tokens_per_s")) {
      out["decode_tokens_per_s"] = m.tokens_per_s.median;
      out["decode_gb_per_s"] = m.gb_per_s;
    }
    out["results"].push_back(std::move(row));
  }
  for (const StreamSpeed& s : report.stream)
    out["stream"].push_back({{"threads", s.threads},
                             {"gb_per_s", s.gb_per_s},
                             {"prefetch_ahead", s.prefetch_ahead},
                             {"plain_gb_per_s", s.plain_gb_per_s}});
  if (!report.starts.empty())
    out["first_token"] = to_json({of_starts(report, &StartTimes::total).median,
                                  of_starts(report, &StartTimes::map).median,
                                  of_starts(report, &StartTimes::tokenizer).median,
                                  of_starts(report, &StartTimes::weights).median,
                                  of_starts(report, &StartTimes::decode).median});
  return out;
}

Result<ExitCode> run(const BenchCommand& command) {
  const SystemClock clock;
  if (command.file.empty() && !command.stream)
    return fail(Code::kInvalidArgument, "bench: expected a model file, or --stream");
  if (command.start_here) {
    MEADOW_TRY(const StartTimes times, measure_start_here(command.file, command.plan().threads,
                                                          command.cache_type(), clock));
    put(to_line(to_json(times)));
    return kExitOk;
  }
  Report report;
  if (command.stream) {
    MEADOW_TRY(report.stream, measure_stream(command.plan().threads, clock));
  }
  if (!command.file.empty() && command.first_token)
    MEADOW_TRY_VOID(measure_starts(command, report));
  else if (!command.file.empty())
    MEADOW_TRY_VOID(measure_model(command, report));
  put(command.json ? to_line(as_json(command, report)) : human(command, report));
  return kExitOk;
}

void add_what_to_measure(CLI::App& command, BenchCommand& options) {
  const std::string group = "What to measure";
  command.add_option("--prompt", options.prompt, "Tokens read in one go; 0: not measured")
      ->type_name("N")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str()
      ->group(group);
  command.add_option("--gen", options.gen, "Tokens one by one, into an empty cache; 0: none")
      ->type_name("N")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--depth", options.depths, "Positions in the cache before --gen tokens are made")
      ->type_name("N,N…")
      ->delimiter(',')
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--parallel", options.sequences,
                  "Also --gen tokens for each of so many sequences at once; speed of all together")
      ->type_name("N,N…")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024))
      ->group(group);
  command
      .add_flag("--stream", options.stream,
                "Memory bandwidth of plain reading, and how much of it decoding reaches; needs no "
                "file")
      ->group(group);
  command
      .add_flag("--first-token", options.first_token,
                "Instead: a fresh process from its start to the first logits, by part")
      ->group(group);
  command.add_flag("--start-here", options.start_here)->group("");  // of that fresh process
}

}  // namespace

void add_bench(CLI::App& program, Selection& selection) {
  auto options = std::make_shared<BenchCommand>();
  CLI::App* command =
      program.add_subcommand("bench", "How fast this machine runs a model in one process");
  command->add_option("file", options->file, "The model file (GGUF)");
  add_what_to_measure(*command, *options);
  command->add_option("--repeat", options->repeat, "Runs, of which the median counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--cache-type,--cache", options->cache, "Type of the attention cache")
      ->check(CLI::IsMember(kCacheTypes))
      ->capture_default_str();
  add_compute_options(*command, options->compute);
  add_pin_option(*command, options->compute);
  add_json_option(*command, options->json);
  command->callback([&selection, options] {
    selection.json = &options->json;
    selection.run = [options] { return run(*options); };
  });
}

}  // namespace meadow::apps
