// meadow demo: the main job on one machine. A swarm of real processes answers a prompt, one server
// of the chain is killed in mid-answer, the text must equal that of the whole model in one process.
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "format/model_file.h"
#include "meadow/command.h"
#include "meadow/interrupt.h"
#include "meadow/local_swarm.h"
#include "meadow/options.h"
#include "meadow/output_file.h"
#include "meadow/terminal.h"
#include "model/hyperparameters.h"
#include "text/chat_template.h"

namespace meadow::apps {
namespace {

struct DemoOptions {
  std::string model;
  std::string prompt = "Tell me how a river finds its way to the sea.";
  std::string report;  // file for the figures; empty: none
  int64_t max_tokens = 96;
  double limit_s = 280;
  bool json = false;
};

// What the swarm's client told.
struct Run {
  std::string text;
  Json done;  // its last event
  Json route_before = Json::array();
  std::string killed_peer;
  TimePoint killed_at{};
};

std::string describe_route(const Json& route) {
  std::string out;
  for (const Json& hop : route) {
    if (!out.empty()) out += " -> ";
    out += fmt::format("{}:{} at {}", hop.value("first", 0), hop.value("last", 0),
                       hop.value("peer", "").substr(0, 8));
  }
  return out;
}

// After how many tokens of the answer a server is killed: well inside it, so that there is
// something to replay and something to come. 0, while the prompt is read, if there is no inside.
int64_t kill_after(int64_t max_tokens, int64_t answer_tokens) {
  if (answer_tokens < 2) return 0;
  return std::clamp<int64_t>(std::min(max_tokens / 3, answer_tokens / 2), 1, answer_tokens - 1);
}

class Demo {
 public:
  explicit Demo(const DemoOptions& options)
      : options_(options), until_(clock_.now() + from_seconds(options.limit_s)) {}

  Result<ExitCode> run();

 private:
  void note(const std::string& line) const {
    if (!options_.json) put(line + "\n");
  }
  Result<void> look_at_model();
  std::vector<std::string> generate_arguments() const;
  Result<Run> reference();
  Result<void> start_servers();
  // Kills a server of the chain once kill_after tokens are there.
  Result<Run> answer_with_kill(int64_t kill_after);
  // Reads a client's events up to the end; on_progress is called with 0 once the chain stands, and
  // after each token with their number.
  Result<Run> follow(ChildProcess client, const std::function<void(Run&, int64_t)>& on_progress,
                     bool echo);
  void kill_one(Run& run, int64_t tokens);
  Result<ExitCode> conclude(const Run& local, const Run& swarm);

  const DemoOptions& options_;
  SystemClock clock_;
  TimePoint until_;
  std::string program_;
  int32_t n_blocks_ = 0;
  bool chat_ = false;  // the model was made for talking
  std::unique_ptr<LocalSwarm> swarm_;
};

Result<void> Demo::look_at_model() {
  MEADOW_TRY(const auto file, format::ModelFile::open(options_.model));
  MEADOW_TRY(const auto parameters, model::hyperparameters(*file));
  n_blocks_ = parameters.n_blocks;
  const auto jinja = file->metadata().string("tokenizer.chat_template");
  chat_ = jinja && text::chat_family(*jinja);
  return {};
}

std::vector<std::string> Demo::generate_arguments() const {
  std::vector<std::string> arguments = {"generate",
                                        "--model",
                                        options_.model,
                                        "--prompt",
                                        options_.prompt,
                                        "--max-tokens",
                                        std::to_string(options_.max_tokens),
                                        "--temperature",
                                        "0",
                                        "--events"};
  if (chat_) arguments.push_back("--chat");
  return arguments;
}

Result<Run> Demo::follow(ChildProcess client, const std::function<void(Run&, int64_t)>& on_progress,
                         bool echo) {
  Run run;
  int64_t tokens = 0;
  while (auto line = client.read_line(until_)) {
    if (Interrupt::token().cancelled()) return fail(Code::kCancelled, "the demo was interrupted");
    const Json event = Json::parse(*line, nullptr, false);
    if (!event.is_object()) return fail(Code::kInternal, "the client printed: {}", *line);
    const std::string kind = event.value("event", "");
    if (kind == "text") {
      run.text += event.value("text", "");
      if (echo && !options_.json) put(event.value("text", ""));
    } else if (kind == "route") {
      if (run.killed_peer.empty()) run.route_before = event["route"];
      if (tokens == 0) on_progress(run, 0);
    } else if (kind == "token") {
      on_progress(run, ++tokens);
    } else if (kind == "done") {
      run.done = event;
    }
  }
  const std::optional<Exit> exit = client.wait(until_);
  if (!exit)
    return fail(Code::kDeadlineExceeded, "no end within --limit {} s; the client said: {}",
                options_.limit_s, client.stderr_text());
  if (!exit->ok() || !run.done.is_object())
    return fail(Code::kInternal, "the client ended with {}: {}{}", exit->text(),
                client.stdout_text().substr(0, 2000), client.stderr_text());
  return run;
}

Result<Run> Demo::reference() {
  std::vector<std::string> arguments = generate_arguments();
  arguments.insert(arguments.begin(), program_);
  arguments.push_back("--local");
  MEADOW_TRY(auto client, ChildProcess::start(arguments));
  return follow(std::move(client), [](Run&, int64_t) {}, false);
}

Result<void> Demo::start_servers() {
  const int32_t spans = std::min(3, n_blocks_);
  MEADOW_TRY(auto started, LocalSwarm::start(program_, "demo:between-us", until_));
  swarm_ = std::make_unique<LocalSwarm>(std::move(started));
  for (int copy = 0; copy < 2; copy++)
    for (int32_t s = 0; s < spans; s++) {
      const BlockRange blocks{n_blocks_ * s / spans, n_blocks_ * (s + 1) / spans};
      MEADOW_TRY_VOID(swarm_->add_server(options_.model, blocks));
    }
  MEADOW_TRY_VOID(swarm_->wait_ready(std::min(until_, clock_.now() + 60s)));
  note(fmt::format("{} servers and a bootstrap peer; every block is held twice:", 2 * spans));
  for (size_t i = 0; i < swarm_->size(); i++) {
    const PeerProcess& server = swarm_->server(i);
    note(fmt::format("  {} at {} holds {}:{}", server.peer.substr(0, 8), server.listen,
                     server.blocks.first, server.blocks.last));
  }
  return {};
}

void Demo::kill_one(Run& run, int64_t tokens) {
  const size_t hops = run.route_before.size();
  if (hops == 0) return;
  const std::string peer = run.route_before[hops / 2].value("peer", "");
  PeerProcess* server = swarm_->find(peer);
  if (!server) return;
  run.killed_peer = peer;
  run.killed_at = clock_.now();
  server->process.send_signal(SIGKILL);
  note(fmt::format("{}[{} is killed with SIGKILL, {}]", tokens > 0 ? "\n" : "", peer.substr(0, 8),
                   tokens > 0 ? fmt::format("after token {}", tokens) : "before the first token"));
}

Result<Run> Demo::answer_with_kill(int64_t kill_after) {
  std::vector<std::string> arguments = generate_arguments();
  arguments.insert(arguments.begin() + 1, swarm_->invite());
  MEADOW_TRY(auto client, swarm_->run(arguments));
  return follow(
      std::move(client),
      [&](Run& run, int64_t tokens) {
        if (tokens == kill_after && run.killed_peer.empty()) kill_one(run, tokens);
      },
      true);
}

Result<ExitCode> Demo::conclude(const Run& local, const Run& swarm) {
  const bool equal = local.text == swarm.text && local.done["token_ids"] == swarm.done["token_ids"];
  double detection = 0, replay = 0;
  for (const Json& failover : swarm.done["failovers"]) {
    detection += failover.value("detection_ms", 0.0);
    replay += failover.value("recovery_ms", 0.0);
  }
  const Json report = {{"text_equal", equal},
                       {"tokens", swarm.done.value("tokens", 0)},
                       {"tokens_per_s", swarm.done.value("tokens_per_s", 0.0)},
                       {"local_tokens_per_s", local.done.value("tokens_per_s", 0.0)},
                       {"stall_ms", detection + replay},
                       {"detection_ms", detection},
                       {"replay_ms", replay},
                       {"longest_gap_ms", swarm.done.value("longest_gap_ms", 0.0)},
                       {"bytes_sent", swarm.done["swarm"].value("bytes_sent", uint64_t{0})},
                       {"killed_peer", swarm.killed_peer},
                       {"route_before", swarm.route_before},
                       {"route_after", swarm.done["route"]},
                       {"failovers", swarm.done["failovers"]},
                       {"text", swarm.text}};
  Result<void> written;
  if (!options_.report.empty())
    written = write_whole(options_.report,
                          report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  // Scripts get one object: this one or the error.
  if (options_.json && written) put(to_line(report));
  note("");
  note("");
  note("route before  " + describe_route(report["route_before"]));
  note("route after   " + describe_route(report["route_after"]));
  note(fmt::format("killed        {}", swarm.killed_peer.substr(0, 8)));
  note(fmt::format("tokens        {} at {:.1f} per second ({:.1f} in one process)",
                   swarm.done.value("tokens", 0), swarm.done.value("tokens_per_s", 0.0),
                   local.done.value("tokens_per_s", 0.0)));
  note(fmt::format("stall         {:.0f} ms: detection {:.0f} ms, replay {:.0f} ms",
                   detection + replay, detection, replay));
  note(fmt::format("bytes sent    {} by the client",
                   human_bytes(report["bytes_sent"].get<uint64_t>())));
  note(fmt::format("text equal    {}", equal ? "yes, to the last token" : "NO"));
  if (!equal) note("in one process: " + local.text);
  const bool killed = !swarm.killed_peer.empty() && !swarm.done["failovers"].empty();
  if (!killed) say("meadow: no server was replaced during the answer: the demo shows nothing");
  if (!written) return fail(written.error());
  return equal && killed ? kExitOk : kExitDiffers;
}

Result<ExitCode> Demo::run() {
  MEADOW_TRY(program_, own_path());
  if (!options_.report.empty()) MEADOW_TRY_VOID(check_can_write(options_.report));
  MEADOW_TRY_VOID(look_at_model());
  note(fmt::format("prompt: {}\n", options_.prompt));
  note("The whole model in one process first …");
  MEADOW_TRY(const Run local, reference());
  MEADOW_TRY_VOID(start_servers());
  note("\nanswer:");
  MEADOW_TRY(const Run swarm,
             answer_with_kill(kill_after(options_.max_tokens, local.done.value("tokens", 0))));
  auto code = conclude(local, swarm);
  swarm_->stop();
  return code;
}

}  // namespace

void add_demo(CLI::App& program, Selection& selection) {
  auto options = std::make_shared<DemoOptions>();
  CLI::App* command = program.add_subcommand(
      "demo", "A swarm on this machine answers while one of its servers is killed");
  command->add_option("-m,--model", options->model, "The model file (GGUF)")
      ->type_name("FILE")
      ->required();
  command->add_option("-p,--prompt", options->prompt, "What to ask")->capture_default_str();
  command->add_option("--max-tokens", options->max_tokens, "Longest answer")
      ->check(CLI::Range(8, 1 << 20))
      ->capture_default_str();
  command->add_option("--report", options->report, "Write the figures to this file, as JSON")
      ->type_name("FILE");
  command->add_option("--limit", options->limit_s, "End after so many seconds, whatever happens")
      ->check(CLI::Range(1.0, 86400.0))
      ->capture_default_str();
  add_json_option(*command, options->json);
  command->callback([&selection, options] {
    selection.json = &options->json;
    selection.run = [options] { return Demo(*options).run(); };
  });
}

}  // namespace meadow::apps
