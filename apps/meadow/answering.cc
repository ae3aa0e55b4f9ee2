#include "meadow/answering.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "client/process_memory.h"
#include "kernels/attention.h"
#include "meadow/interrupt.h"

namespace meadow::apps {
namespace {

constexpr int64_t kSwarmChunk = 2048;  // prompt tokens that a session gets at once

Json route_json(const swarm::Chain& chain) {
  Json out = Json::array();
  for (const swarm::Hop& hop : chain)
    out.push_back({{"peer", hex(hop.server.id)},
                   {"address", hop.server.address},
                   {"first", hop.blocks.first},
                   {"last", hop.blocks.last}});
  return out;
}

Json failover_json(const swarm::FailoverRecord& record) {
  Json failed = Json::array();
  for (const PeerId& peer : record.failed) failed.push_back(hex(peer));
  return {{"failed", failed},
          {"reason", record.reason},
          {"position", record.position},
          {"detection_ms", milliseconds(record.detection)},
          {"recovery_ms", milliseconds(record.recovery)},
          {"replayed_tokens", record.replayed_tokens}};
}

Json swarm_json(const swarm::SessionStats& stats) {
  return {{"bytes_sent", stats.bytes_sent},
          {"bytes_received", stats.bytes_received},
          {"hidden_bytes_sent", stats.hidden_bytes_sent},
          {"hidden_bytes_received", stats.hidden_bytes_received},
          {"steps", stats.steps},
          {"tokens", stats.tokens},
          {"replays", stats.replays},
          {"moves", stats.moves},
          {"replayed_tokens", stats.replayed_tokens},
          {"resends", stats.resends},
          {"relayed", stats.relayed},
          {"waiting_ms", milliseconds(stats.waiting)},
          {"server_compute_ms", static_cast<double>(stats.server_compute_us) / 1e3},
          {"server_wait_ms", static_cast<double>(stats.server_wait_us) / 1e3}};
}

std::string describe_failover(const swarm::FailoverRecord& record) {
  std::string failed;
  for (const PeerId& peer : record.failed) failed += (failed.empty() ? "" : ", ") + short_id(peer);
  return fmt::format("{} failed ({}): detected in {:.0f} ms, replaced in {:.0f} ms", failed,
                     printable(record.reason), milliseconds(record.detection),
                     milliseconds(record.recovery));
}

}  // namespace

// A bar that follows how much of the weights has been read.
class Answering::LoadingBar {
 public:
  // `whole`: all of the file's weights will be read, else only those of no block.
  LoadingBar(const format::ModelFile& file, bool whole, const Clock& clock)
      : bar_("loading MB", clock) {
    uint64_t total = 0;
    for (const format::TensorInfo& tensor : file.tensors())
      if (whole || !format::block_of(tensor.name)) total += tensor.bytes;
    if (!is_terminal(2)) return;
    thread_ = std::jthread([this, &file, total](std::stop_token stop) {
      std::unique_lock lock(mutex_);
      while (!wake_.wait_for(lock, stop, 100ms, [&] { return stop.stop_requested(); }))
        bar_.update(static_cast<int64_t>(file.weight_bytes_touched() / 1'000'000),
                    static_cast<int64_t>(total / 1'000'000));
    });
  }

 private:
  ProgressBar bar_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;  // last: it stops before what it uses goes
};

Answering::~Answering() = default;

Result<std::unique_ptr<Answering>> Answering::open(AnsweringOptions options) {
  std::unique_ptr<Answering> answering(new Answering(options));
  MEADOW_TRY(answering->file_, format::ModelFile::open(options.answer.model));
  MEADOW_TRY(answering->parameters_, model::hyperparameters(*answering->file_));
  MEADOW_TRY(answering->tokenizer_, text::Tokenizer::from(answering->file_->metadata()));
  answering->seed_ = options.answer.seed ? *options.answer.seed : random_seed();
  return answering;
}

Result<int64_t> Answering::context_for(int64_t wanted) const {
  const int64_t made_for = parameters_.n_ctx;
  const int64_t asked = options_.answer.context;
  if (asked > made_for)
    return fail(Code::kInvalidArgument, "--context {}: the model was made for {} positions", asked,
                made_for);
  return asked > 0 ? asked : std::min(wanted, made_for);
}

Result<void> Answering::start(int64_t context, const CancelToken* cancel) {
  const LoadingBar bar(*file_, options_.answer.local, clock_);
  MEADOW_TRY(ends_, engine::ModelEnds::load(file_, options_.compute.effective_threads()));
  if (options_.answer.local) {
    MEADOW_TRY_VOID(start_local(context));
    model_ = std::make_unique<client::ChainModel>(*ends_, *local_);
  } else {
    MEADOW_TRY_VOID(start_swarm(context, cancel));
    model_ = std::make_unique<client::ChainModel>(*ends_, *remote_);
  }
  generator_ = std::make_unique<client::Generator>(*tokenizer_, *model_, clock_);
  return {};
}

Result<void> Answering::start_local(int64_t context) {
  MEADOW_TRY(local_,
             client::LocalChain::load(file_, options_.compute.effective_threads(),
                                      options_.answer.cache_type(), context, ends_->crew()));
  return {};
}

Result<void> Answering::start_swarm(int64_t context, const CancelToken* cancel) {
  MEADOW_TRY(const Digest fingerprint, file_->fingerprint());
  MEADOW_TRY(node_,
             Node::join(options_.join, clock_, fingerprint, options_.answer.cache_type(), cancel));
  swarm::SessionOptions session;
  session.n_blocks = parameters_.n_blocks;
  session.n_embd = parameters_.n_embd;
  session.max_tokens = context;
  session.codec = *swarm::codec_from(options_.answer.codec);
  session.fingerprint = fingerprint;
  session.numerics = kernels::numerics_id(options_.answer.cache_type());
  MEADOW_TRY(session.filter, swarm::PeerFilter::from(options_.answer.allowed_servers,
                                                     options_.answer.blocked_servers));
  session.push = !options_.answer.no_push;
  session.move_every = from_seconds(options_.answer.move_every_s);
  session.give_up_after = from_seconds(options_.join.timeout_s);
  rng_ = std::make_unique<Rng>(random_seed());
  inbox_ = std::make_unique<swarm::BlockingInbox>(clock_);
  session_ = std::make_unique<swarm::InferenceSession>(session, node_->connector(),
                                                       node_->membership(), *inbox_, clock_, *rng_);
  const auto opened = session_->open(cancel);
  const std::string ignored = node_->ignored_text();
  if (!opened) {
    Error error = opened.error();
    if (!ignored.empty()) error.message += "\n" + ignored;
    return fail(std::move(error));
  }
  if (!ignored.empty()) say(ignored);
  remote_ = std::make_unique<client::SwarmChain>(*session_, context);
  if (options_.telling == Telling::kText)
    say("Note: the servers of this swarm can read what you send and what they answer.");
  watch_route();
  return {};
}

void Answering::event(const Json& json) const {
  if (options_.telling == Telling::kEvents && !put(to_line(json))) Interrupt::token().cancel();
}

Json Answering::route() const { return session_ ? route_json(session_->chain()) : Json::array(); }

void Answering::watch_route() {
  if (!session_) return;
  const auto& failovers = session_->stats().failovers;
  for (; told_failovers_ < failovers.size(); told_failovers_++) {
    const swarm::FailoverRecord& record = failovers[told_failovers_];
    Json json = failover_json(record);
    json["event"] = "failover";
    event(json);
    if (options_.answer.show_route) say(describe_failover(record));
  }
  const swarm::Chain chain = session_->chain();
  if (chain == shown_) return;
  shown_ = chain;
  event({{"event", "route"}, {"route", route_json(chain)}});
  if (options_.answer.show_route) say("route: " + swarm::describe(chain));
}

client::GenerateHooks Answering::hooks(ProgressBar& bar) {
  client::GenerateHooks hooks;
  hooks.on_prompt = [&](int64_t done, int64_t total) { bar.update(done, total); };
  hooks.on_token = [&, first = true](text::TokenId token) mutable {
    bar.finish();
    const TimePoint now = clock_.now();
    if (!first) longest_gap_ = std::max(longest_gap_, now - last_token_);
    first = false;
    last_token_ = now;
    watch_route();
    event({{"event", "token"}, {"id", token}});
  };
  hooks.on_text = [&](std::string_view text) {
    // Nobody reads it any more: the answer may stop.
    if (options_.telling == Telling::kText && !put(text)) Interrupt::token().cancel();
    event({{"event", "text"}, {"text", std::string(text)}});
  };
  return hooks;
}

Result<client::GenerateResult> Answering::answer(std::span<const text::TokenId> prompt,
                                                 const CancelToken* cancel) {
  client::GenerateOptions options = options_.answer.generate;
  options.sampling.seed = seed_;
  // The session cuts by itself, and only what it sees at once can overlap.
  if (session_) options.chunk = std::max<int64_t>(options.chunk, kSwarmChunk);
  longest_gap_ = {};
  ProgressBar bar("prompt", clock_);
  return generator_->generate(prompt, options, hooks(bar), cancel);
}

Json Answering::report(const client::GenerateResult& result) const {
  const client::ProcessMemory memory = client::process_memory();
  Json out = {{"text", result.text},
              {"token_ids", result.tokens},
              {"tokens", result.tokens.size()},
              {"prompt_tokens", result.prompt_tokens},
              {"reused_tokens", result.reused_tokens},
              {"reason", std::string(client::name(result.reason))},
              {"seed", seed_},
              {"tokens_per_s", result.tokens_per_s()},
              {"time_to_first_token_ms", milliseconds(result.time_to_first_token)},
              {"longest_gap_ms", milliseconds(longest_gap_)},
              {"peak_resident_bytes", memory.peak_resident_bytes},
              {"private_bytes", memory.private_bytes},
              {"weight_bytes_touched", file_->weight_bytes_touched()}};
  if (!session_) return out;
  out["route"] = route();
  out["swarm"] = swarm_json(session_->stats());
  out["failovers"] = Json::array();
  for (const auto& record : session_->stats().failovers)
    out["failovers"].push_back(failover_json(record));
  return out;
}

std::string Answering::stats_text(const client::GenerateResult& result) const {
  const client::ProcessMemory memory = client::process_memory();
  std::string out = fmt::format(
      "prompt {} tokens ({} reused), first token after {:.0f} ms; answer {} tokens at {:.1f} per "
      "second, ended by: {}\n"
      "memory: {} at most, {} private; weights touched: {}\n",
      result.prompt_tokens, result.reused_tokens, milliseconds(result.time_to_first_token),
      result.tokens.size(), result.tokens_per_s(), client::name(result.reason),
      human_bytes(memory.peak_resident_bytes), human_bytes(memory.private_bytes),
      human_bytes(file_->weight_bytes_touched()));
  if (!session_) return out;
  const swarm::SessionStats& s = session_->stats();
  out += fmt::format(
      "swarm: {} sent, {} received ({} and {} of hidden states); {} steps, {} tokens, {} replays "
      "of {} tokens; waited {:.1f} s, servers computed {:.1f} s and let it wait {:.1f} s\n"
      "route: {}\n",
      human_bytes(s.bytes_sent), human_bytes(s.bytes_received), human_bytes(s.hidden_bytes_sent),
      human_bytes(s.hidden_bytes_received), s.steps, s.tokens, s.replays, s.replayed_tokens,
      seconds(s.waiting), static_cast<double>(s.server_compute_us) / 1e6,
      static_cast<double>(s.server_wait_us) / 1e6, swarm::describe(session_->chain()));
  return out;
}

}  // namespace meadow::apps
