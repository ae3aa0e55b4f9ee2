#include "meadow/options.h"

#include <charconv>
#include <cstdlib>
#include <thread>

namespace meadow::apps {

void add_join_options(CLI::App& command, JoinOptions& options, const std::string& default_listen) {
  const std::string group = "Swarm";
  command
      .add_option("--swarm", options.swarm,
                  "The swarm; without its secret nobody gets in (an invite brings both)")
      ->type_name("NAME[:SECRET]")
      ->group(group);
  command.add_option("--join", options.join, "An invite, or a peer as host:port or id@host:port")
      ->type_name("PEER_OR_INVITE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(group);
  if (!default_listen.empty()) {
    options.listen = default_listen;
    command
        .add_option("--listen", options.listen,
                    "Address to answer on, as others can dial it; port 0 takes a free one")
        ->type_name("HOST:PORT")
        ->capture_default_str()
        ->group(group);
    command
        .add_option("--announce", options.announce,
                    "Address to tell others, where it differs from --listen (0.0.0.0, a router)")
        ->type_name("HOST:PORT")
        ->group(group);
  }
  command
      .add_option("--identity", options.identity,
                  "File with this peer's key, made if it is not there (default: " +
                      std::string(default_listen.empty()
                                      ? "a new key for every run"
                                      : "one per address under $XDG_STATE_HOME/meadow, else "
                                        "~/.local/state/meadow, else, without HOME, "
                                        "./.local/state/meadow") +
                      ")")
      ->type_name("FILE")
      ->group(group);
  command
      .add_option(
          "--dht", options.dht,
          "Find the swarm over a DHT, too, with a node of it on this UDP address (a literal "
          "IP; port 0 takes a free one); peers with --dht make up one DHT among themselves")
      ->type_name("IP:PORT")
      ->group(group);
  command
      .add_option("--dht-node", options.dht_nodes,
                  "A node of the DHT to begin with: another peer's --dht address; may be repeated")
      ->type_name("HOST:PORT")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(group);
  command
      .add_flag("--dht-public", options.dht_public,
                "Use the public DHT of BitTorrent; strangers there see this address under a hash, "
                "not what it is for")
      ->group(group);
  if (!default_listen.empty())
    command
        .add_flag("--map-port", options.map_ports,
                  "Ask the router (UPnP, NAT-PMP) to lead the port of --listen here")
        ->group(group);
  command
      .add_flag("--insecure", options.insecure,
                "No TLS: for measurements inside one machine; all peers must agree")
      ->group(group);
  command
      .add_option("--timeout", options.timeout_s,
                  "How long to look for servers, at the start and after a failure")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str()
      ->group(group);
}

int ComputeOptions::effective_threads() const {
  if (threads > 0) return threads;
  const unsigned cores = std::thread::hardware_concurrency();
  return cores ? static_cast<int>(cores) : 1;
}

void add_compute_options(CLI::App& command, ComputeOptions& options) {
  command.add_option("--threads", options.threads, "Threads that compute (default: one per core)")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
}

DType cache_type_of(std::string_view name) {
  return name == "f32" ? DType::kF32 : name == "q8_0" ? DType::kQ8_0 : DType::kF16;
}

void add_pin_option(CLI::App& command, ComputeOptions& options) {
  command.add_flag("--pin", options.pin,
                   "Tie the threads beside the first to one processor each; an error where that is "
                   "not allowed");
}

namespace {

void add_sampling_options(CLI::App& command, AnswerOptions& options) {
  const std::string group = "Sampling";
  text::SamplingOptions& s = options.generate.sampling;
  command.add_option("--temperature", s.temperature, "0 always takes the likeliest token")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str()
      ->group(group);
  command.add_option("--top-k", s.top_k, "Only the K likeliest tokens; 0: all")
      ->check(CLI::Range(0, 1 << 24))
      ->capture_default_str()
      ->group(group);
  command.add_option("--top-p", s.top_p, "Only the likeliest tokens that sum up to P")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str()
      ->group(group);
  command.add_option("--min-p", s.min_p, "Only tokens at least P times as likely as the likeliest")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--repetition-penalty", s.repetition_penalty,
                  "Makes tokens that are there already less likely; 1: off")
      ->check(CLI::Range(0.01, 100.0))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--seed", options.seed, "Same seed, same text (default: another one every time)")
      ->group(group);
}

}  // namespace

void add_answer_options(CLI::App& command, AnswerOptions& options) {
  command.add_option("-m,--model", options.model, "The model file (GGUF)")
      ->type_name("FILE")
      ->required();
  command.add_flag("--local", options.local, "Run all blocks in this process, join no swarm");
  command.add_option("--context", options.context, "Positions to reserve for prompt and answer")
      ->type_name("N")
      ->check(CLI::Range(2, 1 << 24));
  command.add_option("--max-tokens", options.generate.max_tokens, "Longest answer")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  command.add_option("--stop", options.generate.stop, "Text that ends the answer; may be repeated")
      ->type_name("TEXT")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      .add_option("--cache-type,--cache", options.cache,
                  "Type of the attention cache; servers with another are not used")
      ->check(CLI::IsMember(kCacheTypes))
      ->capture_default_str();
  command
      .add_option("--codec", options.codec,
                  "How hidden states travel: f32 is exact, f16 halves the bytes, q8 quarters them")
      ->check(CLI::IsMember({"f32", "f16", "q8"}))
      ->capture_default_str();
  command.add_flag("--no-push", options.no_push,
                   "Pass everything through this client instead of from server to server");
  command.add_flag("--ignore-end", options.generate.ignore_end,
                   "Go on after the model ended its turn, up to --max-tokens (for measurements)");
  command
      .add_option("--move-every", options.move_every_s,
                  "Look for a faster chain so often, and move where that pays (default: stay)")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.1, 86400.0));
  command
      .add_option("--allow-server", options.allowed_servers,
                  "Use these servers only, by peer id or its first 8 digits and more; may be "
                  "repeated")
      ->type_name("PEER")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      .add_option("--block-server", options.blocked_servers,
                  "Never use this server; may be repeated")
      ->type_name("PEER")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command.add_flag("--show-route", options.show_route,
                   "Say which servers answer, and every change, on stderr");
  command.add_flag("--stats", options.stats, "Figures of the answer on stderr");
  add_sampling_options(command, options);
}

void add_json_option(CLI::App& command, bool& json) {
  command.add_flag("--json", json, "Output for scripts: one JSON object");
}

Result<BlockRange> parse_blocks(const std::string& text) {
  BlockRange range;
  const char* end = text.data() + text.size();
  auto [colon, first_error] = std::from_chars(text.data(), end, range.first);
  bool ok = first_error == std::errc{} && colon != end && *colon == ':';
  if (ok) {
    auto [rest, last_error] = std::from_chars(colon + 1, end, range.last);
    ok = last_error == std::errc{} && rest == end && range.first >= 0 && range.last > range.first;
  }
  if (!ok)
    return fail(Code::kInvalidArgument,
                "--blocks {}: expected A:B with 0 <= A < B, the blocks A up to, without, B", text);
  return range;
}

std::string identity_path(const std::string& role, const std::string& listen) {
  std::string file = role + "-" + listen + ".key";
  for (char& c : file)
    if (c == ':' || c == '/' || c == '[' || c == ']' || c == '%') c = '-';
  if (const char* state = std::getenv("XDG_STATE_HOME"); state && *state)
    return std::string(state) + "/meadow/" + file;
  const char* home = std::getenv("HOME");
  return std::string(home && *home ? home : ".") + "/.local/state/meadow/" + file;
}

}  // namespace meadow::apps
