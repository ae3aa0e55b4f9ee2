#include "lab_place.h"

#include <stdlib.h>

#include <filesystem>

#include "lab/probe.h"

namespace meadow::bench {
namespace {

constexpr Duration kPatience = 600s;

TimePoint in(Duration d) { return SystemClock().now() + d; }

std::vector<std::string> joined(std::vector<std::string> all,
                                const std::vector<std::string>& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

// Waits for a client and reads its report.
Result<Run> finish(apps::ChildProcess& client, TimePoint started) {
  const auto exit = client.wait(in(kPatience));
  if (!exit || !exit->ok())
    return fail(Code::kUnavailable, "generate: {}: {}{}", exit ? exit->text() : "still running",
                client.stdout_text(), client.stderr_text());
  Run run{Json::parse(client.stdout_text(), nullptr, false), SystemClock().now() - started};
  if (!run.report.is_object())
    return fail(Code::kCorrupt, "generate printed {}", client.stdout_text());
  return run;
}

}  // namespace

double Run::step_ms() const {
  const double speed = report.value("tokens_per_s", 0.0);
  return speed > 0 ? 1000 / speed : 0;
}

double Run::first_token_ms() const { return report.value("time_to_first_token_ms", 0.0); }

std::string prompt_of(int tokens) {
  std::string text = "the";
  for (int i = 1; i < tokens; i++) text += i % 2 ? " river" : " the";
  return text;
}

Result<std::unique_ptr<Place>> Place::start(const PlaceOptions& options) {
  std::unique_ptr<Place> place(new Place(options));
  lab::LabFile file;
  auto add = [&](std::string name) { file.hosts.push_back({std::move(name), {}, 0, 0}); };
  for (int i = 0; i < options.clients; i++) add(fmt::format("client{}", i + 1));
  for (int i = 0; i < options.servers * options.copies; i++) add(fmt::format("server{}", i + 1));
  add("bootstrap");
  MEADOW_TRY(place->lab_, lab::Lab::start(std::move(file)));
  MEADOW_TRY(place->swarm_, labapp::LabSwarm::start(options.programs, *place->lab_,
                                                    place->lab_->size() - 1, in(20s)));
  for (int i = 0; i < options.servers * options.copies; i++) {
    const int span = i % options.servers;
    const BlockRange blocks{options.n_blocks * span / options.servers,
                            options.n_blocks * (span + 1) / options.servers};
    MEADOW_TRY_VOID(place->swarm_->add_server(place->server_host(i), options.model, blocks));
  }
  MEADOW_TRY_VOID(place->swarm_->wait_ready(in(120s)));
  return place;
}

size_t Place::server_host(int i) const { return static_cast<size_t>(options_.clients + i); }

Result<void> Place::set(Duration rtt, double rate) {
  if (rate != rate_)
    for (size_t host = 0; host < lab_->size(); host++)
      MEADOW_TRY_VOID(lab_->set_rate(host, rate, rate));
  rate_ = rate;
  return lab_->set_links({.rtt = rtt});
}

Result<Links> Place::measure_links() {
  Links links;
  size_t from = client_host();
  for (int hop = 0; hop <= options_.servers; hop++) {
    const size_t to = hop < options_.servers ? server_host(hop) : client_host();
    MEADOW_TRY(const auto trips, lab::measure_round_trips(*lab_, from, to, 5));
    links.half_trips += trips.at(0.5) / 2;
    from = to;
  }
  return links;
}

Result<double> Place::measure_rate() {
  return lab::measure_rate(*lab_, client_host(), server_host(0), 300ms);
}

std::vector<std::string> Place::arguments(const std::vector<std::string>& more) const {
  return joined({"generate", swarm_->invite(), "--model", options_.model, "--threads", "1",
                 "--ignore-end", "--json"},
                more);
}

Result<Run> Place::generate(const std::vector<std::string>& more, int client) {
  const TimePoint started = SystemClock().now();
  MEADOW_TRY(auto process, swarm_->run(client_host(client), arguments(more)));
  return finish(process, started);
}

Result<std::vector<Run>> Place::generate_together(const std::vector<std::string>& more,
                                                  int clients) {
  const TimePoint started = SystemClock().now();
  std::vector<apps::ChildProcess> processes;
  for (int i = 0; i < clients; i++) {
    MEADOW_TRY(auto process, swarm_->run(client_host(i), arguments(more)));
    processes.push_back(std::move(process));
  }
  std::vector<Run> runs;
  for (apps::ChildProcess& process : processes) {
    MEADOW_TRY(auto run, finish(process, started));
    runs.push_back(std::move(run));
  }
  return runs;
}

Result<Run> generate_local(const PlaceOptions& options, const std::vector<std::string>& more) {
  const TimePoint started = SystemClock().now();
  MEADOW_TRY(auto process, apps::ChildProcess::start(
                               joined({options.programs.meadow, "generate", "--local", "--model",
                                       options.model, "--threads", "1", "--ignore-end", "--json"},
                                      more)));
  return finish(process, started);
}

}  // namespace meadow::bench
