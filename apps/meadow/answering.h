// What generate and chat share: the model's ends, a chain (in this process or in a swarm), the
// generator over both, and what is told to people and scripts meanwhile.
// Thread rule: one thread. Owns everything but the options, which must outlive it.
#pragma once
#include <memory>
#include <string>

#include "client/generator.h"
#include "client/local_chain.h"
#include "client/swarm_chain.h"
#include "engine/model_ends.h"
#include "format/model_file.h"
#include "meadow/node.h"
#include "meadow/options.h"
#include "meadow/terminal.h"
#include "model/hyperparameters.h"
#include "swarm/blocking_inbox.h"
#include "swarm/inference_session.h"
#include "text/tokenizer.h"

namespace meadow::apps {

// How an answer is told.
enum class Telling {
  kText,    // the text as it comes, for people
  kJson,    // one object at the end
  kEvents,  // JSON lines as things happen, the last one the object of kJson
};

struct AnsweringOptions {
  const AnswerOptions& answer;
  const JoinOptions& join;
  const ComputeOptions& compute;
  Telling telling = Telling::kText;
};

class Answering {
 public:
  // Opens file and tokenizer: no weights, no network yet.
  static Result<std::unique_ptr<Answering>> open(AnsweringOptions options);
  ~Answering();

  // Positions that --context or, without it, `wanted` allows of what the model was made for;
  // kInvalidArgument if --context is beyond that.
  Result<int64_t> context_for(int64_t wanted) const;
  // Loads what this process computes and opens the chain. Blocks; cancellable.
  Result<void> start(int64_t context, const CancelToken* cancel);

  // One answer, told while it grows. start() was called.
  Result<client::GenerateResult> answer(std::span<const text::TokenId> prompt,
                                        const CancelToken* cancel);

  // The answer and its figures.
  Json report(const client::GenerateResult& result) const;
  // The same figures for people.
  std::string stats_text(const client::GenerateResult& result) const;

  const text::Tokenizer& tokenizer() const { return *tokenizer_; }
  const format::ModelFile& file() const { return *file_; }
  const model::Hyperparameters& parameters() const { return parameters_; }
  void forget() { generator_->reset(); }

 private:
  class LoadingBar;

  explicit Answering(AnsweringOptions options) : options_(options) {}
  Result<void> start_local(int64_t context);
  Result<void> start_swarm(int64_t context, const CancelToken* cancel);
  void event(const Json& json) const;
  void watch_route();
  Json route() const;
  client::GenerateHooks hooks(ProgressBar& bar);

  AnsweringOptions options_;
  SystemClock clock_;
  std::shared_ptr<format::ModelFile> file_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  model::Hyperparameters parameters_;
  uint64_t seed_ = 0;

  std::unique_ptr<engine::ModelEnds> ends_;
  std::unique_ptr<client::LocalChain> local_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<Rng> rng_;
  std::unique_ptr<swarm::BlockingInbox> inbox_;
  std::unique_ptr<swarm::InferenceSession> session_;
  std::unique_ptr<client::SwarmChain> remote_;
  std::unique_ptr<client::ChainModel> model_;
  std::unique_ptr<client::Generator> generator_;

  swarm::Chain shown_;         // the route last told
  size_t told_failovers_ = 0;  // of the session's records
  TimePoint last_token_;       // for the longest gap
  Duration longest_gap_{};     // between two tokens of the last answer
};

}  // namespace meadow::apps
