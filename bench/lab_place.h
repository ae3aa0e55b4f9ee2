// A swarm of real processes in a lab, measured: the links between the hosts of its chain, answers
// of real clients, and the floor that no implementation could pass on these links. Thread rule: one
// thread. Owns the lab and the swarm.
#pragma once
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "lab/lab.h"
#include "lab/lab_swarm.h"

namespace meadow::bench {

using Json = nlohmann::ordered_json;

struct PlaceOptions {
  labapp::Programs programs;
  std::string model;
  int servers = 3;
  int copies = 1;   // servers for each span
  int clients = 1;  // hosts for them
  int32_t n_blocks = 0;
};

// What the network of a chain takes, as measured now.
struct Links {
  Duration half_trips{};  // client to the first server, from server to server, back to the client
  double bits_per_s = 0;  // payload of one TCP stream
};

// One run of `meadow generate`, and how long the whole process took.
struct Run {
  Json report;
  Duration wall{};
  double step_ms() const;         // between two tokens
  double first_token_ms() const;  // from the prompt's start
  double tokens() const { return report.value("tokens", 0.0); }
  double prompt_tokens() const { return report.value("prompt_tokens", 0.0); }
};

class Place {
 public:
  // Starts lab and swarm and waits until all servers are online. Blocks.
  static Result<std::unique_ptr<Place>> start(const PlaceOptions& options);

  // All links alike; `rate` of every host, up and down (0: top).
  Result<void> set(Duration rtt, double rate);
  Result<Links> measure_links();
  // Of the rate alone, which does not depend on the round trip: at the present rate, without delay.
  Result<double> measure_rate();

  size_t client_host(int i = 0) const { return static_cast<size_t>(i); }
  size_t server_host(int i) const;
  labapp::LabSwarm& swarm() { return *swarm_; }
  lab::Lab& lab() { return *lab_; }
  const PlaceOptions& options() const { return options_; }

  // Arguments of `meadow generate` in this swarm.
  std::vector<std::string> arguments(const std::vector<std::string>& more) const;
  // Runs a client on its host to its end.
  Result<Run> generate(const std::vector<std::string>& more, int client = 0);
  // Runs so many clients at once, each on a host of its own.
  Result<std::vector<Run>> generate_together(const std::vector<std::string>& more, int clients);

 private:
  explicit Place(PlaceOptions options) : options_(std::move(options)) {}

  PlaceOptions options_;
  std::unique_ptr<lab::Lab> lab_;
  std::unique_ptr<labapp::LabSwarm> swarm_;
  double rate_ = 0;
};

// The same answer by one process that holds the whole model, with one thread.
Result<Run> generate_local(const PlaceOptions& options, const std::vector<std::string>& more);

// A prompt of about so many tokens.
std::string prompt_of(int tokens);

}  // namespace meadow::bench
