// What a swarm does over a network with round trips and rates, beside the floor: real `meadow
// serve` and `meadow generate` processes in a lab (docs/lab.md). Needs root. bench_lab --help.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "format/model_file.h"
#include "lab_place.h"

namespace meadow::bench {
namespace {

using Words = std::vector<std::string>;

struct Options {
  PlaceOptions place;
  std::vector<std::string> rtts = {"0", "10ms", "40ms", "80ms"},
                           rates = {"top", "100mbit", "10mbit"};
  std::vector<int> prompts = {128};
  int tokens = 32, repeat = 1, settle = 0;
  bool no_push = false, split = false, json = false;
  int at = 16;
};

struct Cell {
  Duration rtt{};
  double rate = 0;    // asked; 0: top
  Links links;        // measured
  double median = 0;  // ms
  double least = 0, most = 0;
};

void sort_into(Cell& cell, std::vector<double> values) {
  std::sort(values.begin(), values.end());
  cell.median = values[values.size() / 2];
  cell.least = values.front();
  cell.most = values.back();
}

Words decode_words(const Options& o, int prompt) {
  Words words = {"--prompt", prompt_of(prompt), "--max-tokens", std::to_string(o.tokens)};
  if (o.no_push) words.push_back("--no-push");
  return words;
}

// A figure of a run in which servers were taken for dead says nothing about the rest.
void warn_of_failures(const Run& run) {
  const Json& swarm = run.report["swarm"];
  if (run.report["failovers"].empty() && swarm.value("relayed", 0) == 0) return;
  fmt::print(stderr, "failovers {}; replayed tokens {}, relayed {}\n",
             run.report["failovers"].dump(), swarm.value("replayed_tokens", 0),
             swarm.value("relayed", 0));
}

// Bytes of one position's hidden state, from what the client sent.
double position_bytes(const Run& run) {
  const Json& swarm = run.report["swarm"];
  return swarm.value("hidden_bytes_sent", 0.0) / swarm.value("tokens", 1.0);
}

// For every rate and round trip: sets the links, measures them, and hands over a cell.
Result<void> each_cell(Place& place, const Options& o,
                       const std::function<Result<void>(Cell&)>& measure) {
  for (const std::string& rate_word : o.rates) {
    MEADOW_TRY(const double rate, lab::parse_rate(rate_word));
    MEADOW_TRY_VOID(place.set({}, rate));
    MEADOW_TRY(const double bits_per_s, place.measure_rate());
    for (const std::string& rtt_word : o.rtts) {
      Cell cell{.rate = rate};
      MEADOW_TRY(cell.rtt, lab::parse_duration(rtt_word));
      MEADOW_TRY_VOID(place.set(cell.rtt, rate));
      MEADOW_TRY(cell.links, place.measure_links());
      cell.links.bits_per_s = bits_per_s;
      MEADOW_TRY_VOID(measure(cell));
      std::fflush(stdout);
    }
  }
  return {};
}

void print_cell(const Options& o, const char* what, int prompt, const Cell& c, double bytes_ms,
                double compute, double total_bytes) {
  const double floor = milliseconds(c.links.half_trips) + bytes_ms + compute;
  if (o.json) {
    const Json line{{"what", what},
                    {"servers", o.place.servers},
                    {"prompt", prompt},
                    {"rtt_ms", milliseconds(c.rtt)},
                    {"rate_bits_per_s", c.rate},
                    {"measured_bits_per_s", c.links.bits_per_s},
                    {"half_trips_ms", milliseconds(c.links.half_trips)},
                    {"serialisation_ms", bytes_ms},
                    {"compute_ms", compute},
                    {"floor_ms", floor},
                    {"median_ms", c.median},
                    {"least_ms", c.least},
                    {"most_ms", c.most},
                    {"push", !o.no_push},
                    {"bytes", total_bytes}};
    fmt::print("{}\n", line.dump());
    return;
  }
  fmt::print(
      "{:8} {:5} {:7.0f} {:>12} {:10.2f} {:10.2f} {:9.2f} {:9.1f} {:9.1f} [{:.1f}-{:.1f}] "
      "{:6.1f} %\n",
      what, prompt, milliseconds(c.rtt), lab::rate_text(c.rate), milliseconds(c.links.half_trips),
      bytes_ms, compute, floor, c.median, c.least, c.most, 100 * floor / c.median);
}

void print_head(const Options& o) {
  if (o.json) return;
  fmt::print("{} servers, {}{}; all times in ms\n", o.place.servers,
             std::filesystem::path(o.place.model).filename().string(),
             o.no_push ? ", no pushes" : "");
  fmt::print(
      "what    prompt RTT asked      rate half trips  on the wire  compute     floor    median "
      "[least-most]  floor/median\n");
}

// One token: the floor is all half trips, its hidden state on every link, and the computing of the
// same step by one process.
Result<void> decode(Place& place, const Options& o) {
  print_head(o);
  for (const int prompt : o.prompts) {
    MEADOW_TRY(const Run local, generate_local(o.place, decode_words(o, prompt)));
    const double compute = local.step_ms();
    MEADOW_TRY_VOID(each_cell(place, o, [&](Cell& cell) -> Result<void> {
      std::vector<double> steps;
      double bytes = 0;
      for (int i = 0; i < o.repeat; i++) {
        MEADOW_TRY(const Run run, place.generate(decode_words(o, prompt)));
        steps.push_back(run.step_ms());
        warn_of_failures(run);
        bytes = position_bytes(run);
      }
      sort_into(cell, steps);
      if (o.split) {
        // What the servers say of themselves, per step: an answer less the same answer's start.
        Options start = o;
        start.tokens = 2;
        MEADOW_TRY(const Run shorter, place.generate(decode_words(start, prompt)));
        MEADOW_TRY(const Run longer, place.generate(decode_words(o, prompt)));
        auto per_step = [&](const char* field) {
          return (longer.report["swarm"].value(field, 0.0) -
                  shorter.report["swarm"].value(field, 0.0)) /
                 (o.tokens - start.tokens);
        };
        fmt::print(
            "per step: waiting {:.2f} ms, of it servers computing {:.2f}, steps queued {:.2f}; "
            "client itself {:.2f}\n",
            per_step("waiting_ms"), per_step("server_compute_ms"), per_step("server_wait_ms"),
            longer.step_ms() - per_step("waiting_ms"));
      }
      const double wire = (o.place.servers + 1) * bytes * 8e3 / cell.links.bits_per_s;
      print_cell(o, "decode", prompt, cell, wire, compute, bytes);
      return {};
    }));
  }
  return {};
}

// A prompt to its first token. The floor is one message after another: half trips, the prompt's
// states into every server and the last position back, and the computing; parts of a prompt that
// are under way at the same time may pass it.
Result<void> prefill(Place& place, const Options& o) {
  print_head(o);
  for (const int prompt : o.prompts) {
    const Words words = {"--prompt", prompt_of(prompt), "--max-tokens", "2"};
    MEADOW_TRY(const Run local, generate_local(o.place, words));
    const double compute = local.first_token_ms();
    MEADOW_TRY_VOID(each_cell(place, o, [&](Cell& cell) -> Result<void> {
      std::vector<double> times;
      double bytes = 0;
      Words all = words;
      if (o.no_push) all.push_back("--no-push");
      for (int i = 0; i < o.repeat; i++) {
        MEADOW_TRY(const Run run, place.generate(all));
        times.push_back(run.first_token_ms());
        warn_of_failures(run);
        bytes = position_bytes(run) * run.prompt_tokens();
      }
      sort_into(cell, times);
      print_cell(o, "prefill", prompt, cell, o.place.servers * bytes * 8e3 / cell.links.bits_per_s,
                 compute, bytes);
      return {};
    }));
  }
  return {};
}

// n clients at once beside one alone (claim P7's second half).
Result<void> clients(Place& place, const Options& o) {
  if (!o.json)
    fmt::print(
        "{} servers, {}\nclients  RTT asked      rate  tokens/s of each  tokens/s together\n",
        o.place.servers, std::filesystem::path(o.place.model).filename().string());
  return each_cell(place, o, [&](Cell& cell) -> Result<void> {
    for (const int n : {1, o.place.clients}) {
      MEADOW_TRY(const auto runs, place.generate_together(decode_words(o, o.prompts[0]), n));
      double together = 0;
      for (const Run& run : runs) together += 1000 / run.step_ms();
      if (o.json)
        fmt::print("{}\n", Json({{"what", "clients"},
                                 {"clients", n},
                                 {"servers", o.place.servers},
                                 {"rtt_ms", milliseconds(cell.rtt)},
                                 {"rate_bits_per_s", cell.rate},
                                 {"tokens_per_s_together", together}})
                               .dump());
      else
        fmt::print("{:7} {:10.0f} {:>9} {:17.2f} {:18.2f}\n", n, milliseconds(cell.rtt),
                   lab::rate_text(cell.rate), together / n, together);
      if (n == o.place.clients) break;
    }
    return {};
  });
}

// An answer during which the middle server of the chain is hit.
Result<Json> hit_one(Place& place, const Options& o, int prompt, int signal) {
  Words words = place.arguments(decode_words(o, prompt));
  words.push_back("--events");
  MEADOW_TRY(auto client, place.swarm().run(place.client_host(), words));
  int tokens = 0;
  Json route, done;
  const TimePoint until = SystemClock().now() + 300s;
  while (auto line = client.read_line(until)) {
    const Json event = Json::parse(*line, nullptr, false);
    if (!event.is_object()) break;
    const std::string kind = event.value("event", "");
    if (kind == "route" && route.is_null()) route = event["route"];
    if (kind == "done") done = event;
    if (kind != "token" || ++tokens != o.at) continue;
    const auto index = place.swarm().find(route[route.size() / 2].value("peer", ""));
    if (!index) return fail(Code::kInternal, "the route names no server of ours");
    place.swarm().server(*index).process.send_signal(signal);
  }
  if (done.is_null() || done["failovers"].empty())
    return fail(Code::kUnavailable, "no failover: {}", client.stderr_text());
  // Back to life for the next round.
  for (size_t i = 0; i < place.swarm().size(); i++)
    if (place.swarm().server(i).peer == done["failovers"][0]["failed"][0].get<std::string>())
      MEADOW_TRY_VOID(place.swarm().restart_server(i, SystemClock().now() + 60s));
  return done;
}

// Detection and replay apart, beside what a restart from scratch would take: a new session fed with
// everything so far.
Result<void> failover(Place& place, const Options& o) {
  if (!o.json)
    fmt::print(
        "{} spans with {} servers each, {}; all times in ms\n"
        "hit by    prompt  RTT asked  detected in  replayed in  positions  restart instead  "
        "longest pause  step\n",
        o.place.servers, o.place.copies, std::filesystem::path(o.place.model).filename().string());
  for (const int prompt : o.prompts)
    MEADOW_TRY_VOID(each_cell(place, o, [&](Cell& cell) -> Result<void> {
      const Words scratch = {"--prompt", prompt_of(prompt + o.at), "--max-tokens", "2"};
      MEADOW_TRY(const Run restart, place.generate(scratch));
      for (const int signal : {SIGKILL, SIGSTOP})
        for (int i = 0; i < o.repeat; i++) {
          MEADOW_TRY(const Json done, hit_one(place, o, prompt, signal));
          const Json& f = done["failovers"][0];
          const char* name = signal == SIGKILL ? "SIGKILL" : "SIGSTOP";
          if (o.json)
            fmt::print("{}\n", Json({{"what", "failover"},
                                     {"signal", name},
                                     {"rtt_ms", milliseconds(cell.rtt)},
                                     {"restart_ms", restart.first_token_ms()},
                                     {"longest_gap_ms", done["longest_gap_ms"]},
                                     {"failover", f}})
                                   .dump());
          else
            fmt::print("{:8} {:7} {:10.0f} {:12.0f} {:12.0f} {:10} {:16.0f} {:14.0f} {:5.0f}\n",
                       name, prompt, milliseconds(cell.rtt), f.value("detection_ms", 0.0),
                       f.value("recovery_ms", 0.0), f.value("replayed_tokens", 0),
                       restart.first_token_ms(), done.value("longest_gap_ms", 0.0),
                       1000 / done.value("tokens_per_s", 1.0));
        }
      return {};
    }));
  return {};
}

Result<int32_t> blocks_of(const std::string& model) {
  MEADOW_TRY(const auto file, format::ModelFile::open(model));
  int32_t last = -1;
  for (const auto& tensor : file->tensors())
    if (const auto block = format::block_of(tensor.name)) last = std::max(last, *block);
  return last + 1;
}

using Bench = Result<void> (*)(Place&, const Options&);

Result<void> run(Options& o, Bench bench) {
  MEADOW_TRY(o.place.n_blocks, blocks_of(o.place.model));
  MEADOW_TRY(const auto place, Place::start(o.place));
  // A young swarm makes connections: handshakes of everybody with everybody, on our few cores.
  std::this_thread::sleep_for(std::chrono::seconds(o.settle));
  return bench(*place, o);
}

int main_of(int argc, char** argv) {
  CLI::App program("A swarm over a network, beside its floor.", "bench_lab");
  program.require_subcommand(1);
  Options o;
  o.place.programs = {MEADOW_PROGRAM, MEADOW_LAB_PROGRAM};
  Result<void> result{};
  auto add = [&](const char* name, const char* what, Bench bench) {
    CLI::App* command = program.add_subcommand(name, what);
    command->add_option("model", o.place.model, "The model file")->required();
    command->add_option("--servers", o.place.servers, "Servers in the chain")
        ->check(CLI::Range(1, 20))
        ->capture_default_str();
    command->add_option("--rtt", o.rtts, "Round trips")->delimiter(',');
    command->add_option("--rate", o.rates, "Rates of every host")->delimiter(',');
    command->add_option("--prompt", o.prompts, "Tokens of the prompt")
        ->delimiter(',')
        ->check(CLI::Range(1, 100000));
    command->add_option("--tokens", o.tokens, "Tokens of the answer")
        ->check(CLI::Range(2, 100000))
        ->capture_default_str();
    command->add_option("--repeat", o.repeat, "Answers for each figure")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
    command->add_option("--settle", o.settle, "Seconds to wait until the peers know each other")
        ->check(CLI::Range(0, 600))
        ->capture_default_str();
    command->add_flag("--no-push", o.no_push, "Everything through the client");
    command->add_flag("--json", o.json, "A JSON object a line");
    command->callback([&, bench] { result = run(o, bench); });
    return command;
  };
  add("decode", "Time between two tokens", decode)
      ->add_flag("--split", o.split, "Also where the time of a step goes");
  add("prefill", "Time from a prompt to the first token", prefill);
  add("clients", "Several clients at once beside one", clients)
      ->add_option("--clients", o.place.clients, "How many")
      ->check(CLI::Range(1, 16));
  CLI::App* hits =
      add("failover", "A server is killed, and one is stopped, in mid-answer", failover);
  hits->add_option("--copies", o.place.copies, "Servers for each span")->check(CLI::Range(2, 4));
  hits->add_option("--at", o.at, "After so many tokens")->check(CLI::Range(1, 100000));
  hits->preparse_callback([&](size_t) { o.place.copies = 2; });
  CLI11_PARSE(program, argc, argv);
  if (result) return 0;
  fmt::print(stderr, "bench_lab: {}\n", result.error().text());
  return 1;
}

}  // namespace
}  // namespace meadow::bench

int main(int argc, char** argv) { return meadow::bench::main_of(argc, argv); }
