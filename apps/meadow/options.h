// Options that several subcommands share, so that they are spelled and explained once.
// Thread rule: values; main thread.
#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/dtype.h"
#include "base/result.h"
#include "base/types.h"
#include "client/generator.h"
#include "swarm/messages.h"

namespace meadow::apps {

inline constexpr char kDefaultSwarm[] = "meadow";

// Of every command that joins a swarm.
struct JoinOptions {
  std::string swarm;                   // NAME[:SECRET]; empty: kDefaultSwarm, or the invite's
  std::vector<std::string> join;       // peers (id@host:port or host:port) and invites
  std::string listen;                  // host:port; empty: takes no connections
  std::string announce;                // host:port that others dial, if it is not `listen`
  std::string identity;                // file; empty: see identity_path()
  std::string dht;                     // host:port of a DHT node of ours; empty: no DHT
  std::vector<std::string> dht_nodes;  // of the DHT, to begin with
  bool dht_public = false;             // BitTorrent's
  bool map_ports = false;              // ask the router (UPnP, NAT-PMP)
  bool insecure = false;

  bool uses_dht() const { return !dht.empty() || !dht_nodes.empty() || dht_public || map_ports; }
  double timeout_s = 60;  // for a chain that works
};
// `listens`: the command answers others, with this default address.
void add_join_options(CLI::App& command, JoinOptions& options, const std::string& default_listen);

// Of every command that computes.
struct ComputeOptions {
  int threads = 0;  // 0: as many as the machine has cores
  bool pin = false;
  int effective_threads() const;
};
void add_compute_options(CLI::App& command, ComputeOptions& options);
// For commands that keep computing.
void add_pin_option(CLI::App& command, ComputeOptions& options);

// Types of an attention cache, as options spell them.
inline const std::vector<std::string> kCacheTypes = {"f16", "f32", "q8_0"};
DType cache_type_of(std::string_view name);  // one of them

// Of every command that answers a prompt.
struct AnswerOptions {
  std::string model;
  bool local = false;
  int64_t context = 0;  // positions; 0: chosen by the command
  std::string cache = "f16";
  std::string codec = "f32";
  bool no_push = false;
  double move_every_s = 0;                                    // 0: the chain stays
  std::vector<std::string> allowed_servers, blocked_servers;  // peer ids, or their beginnings
  client::GenerateOptions generate;
  std::optional<uint64_t> seed;
  bool show_route = false;
  bool stats = false;

  DType cache_type() const { return cache_type_of(cache); }
};
void add_answer_options(CLI::App& command, AnswerOptions& options);

void add_json_option(CLI::App& command, bool& json);

// "A:B" as the half-open range [A, B).
Result<BlockRange> parse_blocks(const std::string& text);

// Where a command that listens keeps its key if --identity does not say: one file per address, so
// that two servers on one machine do not share a key.
//   $XDG_STATE_HOME/meadow/<role>-<host>-<port>.key, or under ~/.local/state
std::string identity_path(const std::string& role, const std::string& listen);

}  // namespace meadow::apps
