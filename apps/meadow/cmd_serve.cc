// meadow serve: holds some blocks of a model and answers for them.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "format/model_file.h"
#include "meadow/command.h"
#include "meadow/interrupt.h"
#include "meadow/node.h"
#include "meadow/options.h"
#include "meadow/terminal.h"
#include "meadow/version.h"
#include "server/capacity.h"
#include "server/daemon.h"

namespace meadow::apps {
namespace {

struct ServeCommand {
  std::string model, blocks, cache = "f16";
  std::vector<std::string> invites;
  std::optional<int32_t> num_blocks;
  int64_t cache_tokens = 0;
  double reserve_gb = 1;
  JoinOptions join;
  ComputeOptions compute;
  bool measure_anew = false, stats = false, json = false;
};

Result<server::DaemonOptions> daemon_options(const ServeCommand& command) {
  server::DaemonOptions options;
  if (!command.blocks.empty()) {
    MEADOW_TRY(options.blocks, parse_blocks(command.blocks));
  }
  options.num_blocks = command.num_blocks;
  options.threads = command.compute.effective_threads();
  options.pin = command.compute.pin;
  options.cache_type = cache_type_of(command.cache);
  options.cache_tokens = command.cache_tokens;
  options.reserve_bytes = static_cast<uint64_t>(command.reserve_gb * 1e9);
  options.measure_anew = command.measure_anew;
  options.speed_cache =
      (std::filesystem::path(identity_path("server", command.join.listen)).parent_path() /
       "speeds.json")
          .string();
  return options;
}

void print_ready(const Node& node, const server::Daemon& daemon, const Digest& fingerprint,
                 bool json) {
  const std::string invite = node.invite(fingerprint);
  const swarm::ServedSpan& span = daemon.announced();
  if (json) {
    put(to_line({{"peer", hex(node.identity().id())},
                 {"listen", node.address()},
                 {"invite", invite},
                 {"blocks", {span.blocks.first, span.blocks.last}},
                 {"n_blocks", span.n_blocks},
                 {"fingerprint", hex(fingerprint)},
                 {"cache_tokens", span.load.free_cache_tokens},
                 {"decode_tokens_per_s", span.load.speed.decode},
                 {"prefill_tokens_per_s", span.load.speed.prefill},
                 {"forward_tokens_per_s", span.load.speed.forward},
                 {"memory_bytes_per_s", daemon.memory_bytes_per_s()},
                 {"weight_bytes_touched", daemon.weight_bytes_touched()}}));
    return;
  }
  put(table(
      {{"swarm", node.swarm_key().name},
       {"peer", hex(node.identity().id())},
       {"listen", node.address()},
       {"blocks", fmt::format("{}:{} of {} ({} of weights)", span.blocks.first, span.blocks.last,
                              span.n_blocks, human_bytes(daemon.weight_bytes_touched()))},
       {"cache", fmt::format("{} positions", span.load.free_cache_tokens)},
       {"speed",
        fmt::format("{:.0f} tokens/s through one block, {:.0f} in a prompt; memory {:.1f} GB/s",
                    span.load.speed.decode, span.load.speed.prefill,
                    daemon.memory_bytes_per_s() / 1e9)},
       {"invite", invite}}));
  say("The invite lets its holder in: pass it on with care. Ctrl-C leaves.");
}

// A line for each session that ended.
void print_session(const swarm::ServedSessionReport& r) {
  say(fmt::format(
      "session of {} over blocks {}:{} ended after {:.1f} s: {} steps, {} tokens ({} of them "
      "replayed); hidden states {} in, {} out; computed {:.2f} s, waited {:.2f} s",
      short_id(r.client), r.blocks.first, r.blocks.last, seconds(r.lifetime), r.steps, r.tokens,
      r.replayed_tokens, human_bytes(r.hidden_bytes_in), human_bytes(r.hidden_bytes_out),
      static_cast<double>(r.compute_us) / 1e6, static_cast<double>(r.wait_us) / 1e6));
}

void print_stats(const server::Daemon& daemon, const rpc::GrpcServer& port) {
  const swarm::SpanServiceStats s = daemon.stats();
  const rpc::GrpcServerStats r = port.stats();
  say(fmt::format(
      "served {} sessions, {} steps, {} tokens, {} of them replayed; {} received, {} sent ({} and "
      "{} of hidden states); "
      "computed {:.1f} s, waited {:.1f} s; {} pushes ({} failed), {} duplicates, {} refused, {} "
      "malformed, {} not admitted",
      s.sessions_total, s.steps, s.tokens, s.replayed_tokens, human_bytes(r.bytes_received),
      human_bytes(r.bytes_sent), human_bytes(s.hidden_bytes_in), human_bytes(s.hidden_bytes_out),
      static_cast<double>(s.compute_us) / 1e6, static_cast<double>(s.wait_us) / 1e6, s.pushes,
      s.pushes_failed, s.duplicates, s.refused, r.malformed, r.not_admitted));
}

Result<ExitCode> run(ServeCommand& command) {
  for (const std::string& invite : command.invites) command.join.join.push_back(invite);
  const SystemClock clock;
  const CancelToken* cancel = &Interrupt::token();
  MEADOW_TRY(auto options, daemon_options(command));
  if (command.stats) options.on_session_end = print_session;
  MEADOW_TRY(const auto file, format::ModelFile::open(command.model));
  MEADOW_TRY(const Digest fingerprint, file->fingerprint());
  MEADOW_TRY(const Entrance in, entrance(command.join));
  if (!in.fingerprint.is_zero() && in.fingerprint != fingerprint)
    return fail(Code::kInvalidArgument,
                "the invite is for the model with fingerprint {}, {} has {}: use the same file as "
                "the others",
                hex(in.fingerprint, 4), command.model, hex(fingerprint, 4));
  MEADOW_TRY(const auto node,
             Node::start(command.join, {"server", fingerprint, true, cache_type_of(command.cache)},
                         clock));
  if (!in.peers.empty() || !command.join.dht_nodes.empty() || command.join.dht_public) {
    // A server that comes back before its bootstrap peer is still of use to those who know it.
    if (auto connected = node->wait_connected(cancel); !connected) {
      if (connected.error().code != Code::kUnavailable) return fail(connected.error());
      say("meadow: " + connected.error().text() + "\nServing all the same; it is tried again.");
    }
  }
  options.version = kVersion;
  options.probe = &node->probe();
  ProgressBar bar("blocks", clock, command.json);
  MEADOW_TRY(const auto daemon,
             server::Daemon::start(file, options, node->membership(), *node->server(), node->push(),
                                   node->connector(), clock, cancel,
                                   [&](const std::string&, int64_t done, int64_t total) {
                                     bar.update(done, total);
                                   }));
  bar.finish();
  print_ready(*node, *daemon, fingerprint, command.json);
  MEADOW_TRY_VOID(output_written());  // nobody could know the invite
  Interrupt::wait(TimePoint::max());
  daemon->leave(3s);
  if (command.stats) print_stats(*daemon, *node->server());
  return kExitOk;
}

}  // namespace

void add_serve(CLI::App& program, Selection& selection) {
  auto options = std::make_shared<ServeCommand>();
  CLI::App* command = program.add_subcommand("serve", "Hold blocks of a model and answer for them");
  command->add_option("model", options->model, "The model file (GGUF)")->required();
  command->add_option("invite", options->invites, "The invite of a swarm (as --join)");
  CLI::Option* blocks =
      command->add_option("--blocks", options->blocks, "These blocks: A up to, without, B")
          ->type_name("A:B");
  command
      ->add_option("--num-blocks", options->num_blocks,
                   "So many blocks, those served worst (default: as many as fit into memory)")
      ->type_name("N")
      ->excludes(blocks);
  command
      ->add_option("--reserve", options->reserve_gb,
                   "Memory to leave alone when counting what fits")
      ->type_name("GB")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command
      ->add_option("--cache-tokens", options->cache_tokens,
                   "Positions of attention cache for all sessions together (default: what fits)")
      ->type_name("N")
      ->check(CLI::Range(64, 1 << 28));
  command->add_option("--cache-type,--cache", options->cache, "Type of the attention cache")
      ->check(CLI::IsMember(kCacheTypes))
      ->capture_default_str();
  command->add_flag("--measure", options->measure_anew,
                    "Measure this machine's speed again, though an earlier start did");
  command->add_flag("--stats", options->stats,
                    "Say what each session was given and took, and all of it on leaving");
  add_compute_options(*command, options->compute);
  add_pin_option(*command, options->compute);
  add_join_options(*command, options->join, "127.0.0.1:7101");
  add_json_option(*command, options->json);
  command->callback([&selection, options] {
    selection.json = &options->json;
    selection.run = [options] { return run(*options); };
  });
}

}  // namespace meadow::apps
