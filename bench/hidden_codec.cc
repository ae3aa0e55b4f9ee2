// What the codecs of hidden states cost and save: bytes a token and hop, error of a crossing,
// perplexity, and greedy text, with the model cut into spans as in a swarm and every crossing
// (client to first, between spans, last to client) encoded and decoded.
//   bench_hidden_codec MODEL.gguf TEXT [SPANS] [WINDOWS]
// Windows of 512 tokens, scored as `meadow perplexity` does; greedy: 64 tokens behind each of 16
// prompts of 48 tokens from the text, compared with the f32 codec.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/model_ends.h"
#include "engine/span_executor.h"
#include "meadow/perplexity.h"
#include "swarm/hidden_codec.h"
#include "text/tokenizer.h"

namespace meadow::bench {
namespace {

using swarm::Codec;

constexpr int64_t kWindow = 512, kPrompt = 48, kAnswer = 64;
constexpr int kPrompts = 16;

struct Error {
  double squares = 0, of = 0;  // of differences, of values
  double worst = 0;            // of one position, relative to its norm
};

class Chain {
 public:
  static Result<std::unique_ptr<Chain>> load(const std::string& path, int32_t spans) {
    auto chain = std::make_unique<Chain>();
    const int threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    MEADOW_TRY(chain->file, format::ModelFile::open(path));
    MEADOW_TRY(chain->ends, engine::ModelEnds::load(chain->file, threads));
    const int32_t n = chain->ends->hyperparameters().n_blocks;
    for (int32_t i = 0; i < spans; i++) {
      engine::SpanOptions options;
      options.blocks = {n * i / spans, n * (i + 1) / spans};
      options.crew = chain->ends->crew();
      options.cache_tokens = 1024;
      MEADOW_TRY(auto span, engine::SpanExecutor::load(chain->file, options));
      MEADOW_TRY_VOID(span->open(SessionId{}, options.blocks, 1024));
      chain->spans.push_back(std::move(span));
    }
    return chain;
  }

  // f32 [n_embd, n] after all spans, every crossing through the codec.
  Result<std::vector<float>> step(std::span<const int32_t> ids, int64_t first, Codec codec,
                                  Error* error) {
    const int64_t width = ends->hyperparameters().n_embd;
    MEADOW_TRY(std::vector<float> hidden, ends->embed(ids));
    for (size_t i = 0; i <= spans.size(); i++) {
      MEADOW_TRY(const Bytes bytes, swarm::encode(hidden, codec, width));
      MEADOW_TRY(std::vector<float> crossed, swarm::decode(bytes, codec, width));
      if (error != nullptr) note(hidden, crossed, width, *error);
      if (i == spans.size()) return crossed;
      MEADOW_TRY(hidden, spans[i]->forward(SessionId{}, first, crossed, nullptr));
    }
    return hidden;
  }

  std::shared_ptr<format::ModelFile> file;
  std::unique_ptr<engine::ModelEnds> ends;
  std::vector<std::unique_ptr<engine::SpanExecutor>> spans;

 private:
  static void note(std::span<const float> a, std::span<const float> b, int64_t width, Error& out) {
    for (size_t at = 0; at < a.size(); at += static_cast<size_t>(width)) {
      double difference = 0, size = 0;
      for (size_t i = at; i < at + static_cast<size_t>(width); i++) {
        difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
        size += double{a[i]} * a[i];
      }
      out.squares += size > 0 ? difference / size : 0;
      out.of += 1;
      if (size > 0) out.worst = std::max(out.worst, std::sqrt(difference / size));
    }
  }
};

struct Figures {
  apps::Perplexity perplexity;
  Error error;
  std::vector<std::vector<int32_t>> answers;
};

Result<Figures> measure(Chain& chain, std::span<const text::TokenId> ids, int64_t windows,
                        Codec codec) {
  Figures out;
  const auto& h = chain.ends->hyperparameters();
  const auto width = static_cast<size_t>(h.n_embd);
  MEADOW_TRY(const auto cut, apps::windows_of(ids, kWindow, text::kNoToken, windows));
  for (const auto& window : cut) {
    MEADOW_TRY(const auto hidden, chain.step(window, 0, codec, &out.error));
    for (int64_t at = apps::first_scored(kWindow); at < kWindow - 1; at++) {
      MEADOW_TRY(const auto logits, chain.ends->logits(std::span(hidden).subspan(
                                        static_cast<size_t>(at) * width, width)));
      out.perplexity.add(apps::surprise(logits, window[static_cast<size_t>(at) + 1]));
    }
  }
  for (int p = 0; p < kPrompts; p++) {
    const auto prompt = ids.subspan(static_cast<size_t>(p) * ids.size() / kPrompts, kPrompt);
    MEADOW_TRY(auto hidden, chain.step(prompt, 0, codec, nullptr));
    std::vector<int32_t> answer;
    for (int64_t i = 0; i < kAnswer; i++) {
      MEADOW_TRY(const auto logits, chain.ends->logits(std::span(hidden).last(width)));
      answer.push_back(
          static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
      MEADOW_TRY(hidden, chain.step({&answer.back(), 1}, kPrompt + i, codec, nullptr));
    }
    out.answers.push_back(std::move(answer));
  }
  return out;
}

Result<void> run(const std::string& model, const std::string& text_path, int32_t spans,
                 int64_t windows) {
  MEADOW_TRY(const auto chain, Chain::load(model, spans));
  std::ifstream in(text_path, std::ios::binary);
  if (!in) return fail(Code::kNotFound, "cannot read {}", text_path);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  MEADOW_TRY(const auto tokenizer, text::Tokenizer::from(chain->file->metadata()));
  MEADOW_TRY(const auto ids, tokenizer->encode(text));
  const int64_t width = chain->ends->hyperparameters().n_embd;
  fmt::print("{} spans, width {}, {} tokens of text\n", spans, width, ids.size());
  std::vector<std::vector<int32_t>> exact;
  for (const Codec codec : {Codec::kF32, Codec::kF16, Codec::kQ8}) {
    MEADOW_TRY(const Figures f, measure(*chain, ids, windows, codec));
    if (codec == Codec::kF32) exact = f.answers;
    int same = 0, whole = 0;
    for (size_t p = 0; p < exact.size(); p++) {
      const auto ends = std::mismatch(exact[p].begin(), exact[p].end(), f.answers[p].begin());
      same += static_cast<int>(ends.first - exact[p].begin());
      whole += ends.first == exact[p].end();
    }
    fmt::print(
        "{}: {} bytes a token and hop, error {:.2e} (rms, worst position {:.2e}), perplexity "
        "{:.4f} +- {:.4f}, {} of {} answers equal, {:.1f} of {} tokens before the first "
        "difference\n",
        swarm::name(codec), swarm::bytes_per_position(width, codec),
        std::sqrt(f.error.squares / f.error.of), f.error.worst, f.perplexity.perplexity(),
        f.perplexity.error(), whole, exact.size(),
        static_cast<double>(same) / static_cast<double>(exact.size()), kAnswer);
    std::fflush(stdout);
  }
  return {};
}

}  // namespace
}  // namespace meadow::bench

int main(int argc, char** argv) {
  if (argc < 3 || argc > 5) {
    fmt::print(stderr, "usage: bench_hidden_codec MODEL.gguf TEXT [SPANS] [WINDOWS]\n");
    return 2;
  }
  const int spans = argc > 3 ? std::clamp(std::atoi(argv[3]), 1, 64) : 3;
  const int windows = argc > 4 ? std::clamp(std::atoi(argv[4]), 1, 1000) : 8;
  if (auto done = meadow::bench::run(argv[1], argv[2], spans, windows); !done) {
    fmt::print(stderr, "bench_hidden_codec: {}\n", done.error().text());
    return 1;
  }
  return 0;
}
