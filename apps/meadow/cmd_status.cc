// meadow status: who is in a swarm, who holds what, what is missing.
#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "format/model_file.h"
#include "meadow/command.h"
#include "meadow/interrupt.h"
#include "meadow/node.h"
#include "meadow/options.h"
#include "meadow/terminal.h"

namespace meadow::apps {
namespace {

struct StatusCommand {
  JoinOptions join;
  std::string invite, model, cache = "f16";
  double wait_s = 3;
  bool json = false;
};

using Servers = std::vector<swarm::ServerInfo>;

int32_t model_blocks(const Servers& servers) {
  int32_t n = 0;
  for (const auto& server : servers) n = std::max(n, server.lease.n_blocks);
  return n;
}

bool serves(const swarm::ServerInfo& server, int32_t block) {
  return server.lease.state == swarm::ServerState::kOnline && !server.silent &&
         server.lease.blocks.contains(block);
}

// Blocks without a server online, as ranges.
std::vector<BlockRange> gaps(const Servers& servers) {
  std::vector<BlockRange> out;
  for (int32_t block = 0; block < model_blocks(servers); block++) {
    if (std::any_of(servers.begin(), servers.end(),
                    [&](const auto& server) { return serves(server, block); }))
      continue;
    if (!out.empty() && out.back().last == block)
      out.back().last++;
    else
      out.push_back({block, block + 1});
  }
  return out;
}

// What its lease says, unless it does not answer: its lease may outlive it for half a minute.
std::string state_of(const swarm::ServerInfo& server) {
  return server.silent ? "silent" : std::string(swarm::name(server.lease.state));
}

Json server_json(const swarm::ServerInfo& server) {
  const swarm::Lease& lease = server.lease;
  return {{"peer", hex(server.peer.id)},
          {"address", server.peer.address},
          {"state", state_of(server)},
          {"first", lease.blocks.first},
          {"last", lease.blocks.last},
          {"decode_tokens_per_s", lease.speed.decode},
          {"prefill_tokens_per_s", lease.speed.prefill},
          {"forward_tokens_per_s", lease.speed.forward},
          {"backward_tokens_per_s", lease.speed.backward},
          {"network_bytes_per_s", lease.network_bytes_per_s},
          {"free_cache_tokens", lease.free_cache_tokens},
          {"sessions", lease.sessions},
          {"queued_tokens", lease.queued_tokens},
          {"pinned", lease.pinned},
          {"rtt_ms", server.rtt < Duration::zero() ? Json() : Json(milliseconds(server.rtt))},
          {"fingerprint", hex(lease.fingerprint)},
          {"version", lease.version}};
}

Json describe(const Node& node, const Servers& servers) {
  Json out = {{"swarm", node.swarm_key().name}, {"n_blocks", model_blocks(servers)}};
  out["servers"] = Json::array();
  for (const auto& server : servers) out["servers"].push_back(server_json(server));
  out["blocks"] = Json::array();
  for (int32_t block = 0; block < model_blocks(servers); block++) {
    Json holders = Json::array();
    for (const auto& server : servers)
      if (serves(server, block)) holders.push_back(hex(server.peer.id));
    out["blocks"].push_back(holders);
  }
  out["gaps"] = Json::array();
  for (const BlockRange& gap : gaps(servers)) out["gaps"].push_back({gap.first, gap.last});
  out["complete"] = !servers.empty() && out["gaps"].empty();
  out["ignored"] = Json::array();
  for (const auto& server : node.membership().ignored())
    out["ignored"].push_back({{"peer", hex(server.peer.id)},
                              {"address", server.peer.address},
                              {"reason", server.reason}});
  out["members_known"] = node.membership().known_addresses().size();
  return out;
}

void print(const Node& node, const Servers& servers) {
  std::vector<std::vector<std::string>> rows = {
      {"peer", "address", "state", "blocks", "tokens/s per block", "free cache", "round trip"}};
  for (const auto& server : servers) {
    const swarm::Lease& lease = server.lease;
    rows.push_back(
        {short_id(server.peer.id), server.peer.address, state_of(server),
         fmt::format("{}:{}", lease.blocks.first, lease.blocks.last),
         fmt::format("{:.0f}", lease.speed.decode), std::to_string(lease.free_cache_tokens),
         server.rtt < Duration::zero() ? std::string("?")
                                       : fmt::format("{:.1f} ms", milliseconds(server.rtt))});
  }
  put(fmt::format("swarm {}: {} servers, {} blocks\n", node.swarm_key().name, servers.size(),
                  model_blocks(servers)));
  if (!servers.empty()) put(table(rows));
  const auto missing = gaps(servers);
  for (const BlockRange& gap : missing)
    put(fmt::format("missing: blocks {}:{} have no server online\n", gap.first, gap.last));
  if (!servers.empty() && missing.empty()) put("every block has a server online\n");
  if (const std::string ignored = node.ignored_text(); !ignored.empty()) put(ignored + "\n");
}

// Lets gossip come in: until nothing new has come for a while, or wait_s has passed.
void gather(const Node& node, double wait_s) {
  const SystemClock clock;
  const Deadline end = Deadline::after(clock, from_seconds(wait_s));
  size_t known = 0;
  TimePoint changed = clock.now();
  while (!end.passed(clock.now()) && !Interrupt::wait(clock.now() + 50ms)) {
    const auto stats = node.membership().stats();
    if (stats.leases != known) {
      known = stats.leases;
      changed = clock.now();
    }
    const auto servers = node.membership().servers();
    const bool measured =
        std::all_of(servers.begin(), servers.end(), [](const swarm::ServerInfo& server) {
          return server.lease.state != swarm::ServerState::kOnline || server.silent ||
                 server.rtt >= Duration::zero();
        });
    if (known > 0 && measured && clock.now() - changed > 500ms) return;
  }
}

Result<ExitCode> run(StatusCommand& command) {
  if (!command.invite.empty()) command.join.join.push_back(command.invite);
  const SystemClock clock;
  Digest fingerprint;
  if (!command.model.empty()) {
    MEADOW_TRY(const auto file, format::ModelFile::open(command.model));
    MEADOW_TRY(fingerprint, file->fingerprint());
  } else {
    MEADOW_TRY(const Entrance in, entrance(command.join));
    fingerprint = in.fingerprint;
  }
  MEADOW_TRY(const auto node, Node::join(command.join, clock, fingerprint,
                                         cache_type_of(command.cache), &Interrupt::token()));
  gather(*node, command.wait_s);
  const Servers servers = node->membership().servers();
  if (command.json)
    put(to_line(describe(*node, servers)));
  else
    print(*node, servers);
  return kExitOk;
}

}  // namespace

void add_status(CLI::App& program, Selection& selection) {
  auto options = std::make_shared<StatusCommand>();
  CLI::App* command = program.add_subcommand("status", "Who is in a swarm and holds what");
  command->add_option("invite", options->invite, "The invite of the swarm");
  command->add_option("-m,--model", options->model, "Only servers of this model")
      ->type_name("FILE");
  command->add_option("--wait", options->wait_s, "How long to listen for members, at most")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.1, 600.0))
      ->capture_default_str();
  add_join_options(*command, options->join, "");
  command
      ->add_option("--cache-type,--cache", options->cache, "Only servers with this attention cache")
      ->check(CLI::IsMember(kCacheTypes))
      ->capture_default_str();
  add_json_option(*command, options->json);
  command->callback([&selection, options] {
    selection.json = &options->json;
    selection.run = [options] { return run(*options); };
  });
}

}  // namespace meadow::apps
