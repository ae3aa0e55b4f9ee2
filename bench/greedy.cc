// Greedy continuations as ids, for comparing with another engine:
//   bench_greedy MODEL.gguf TOKENS [f32|f16] < prompts
// Each line of standard input is a prompt as ids; each line of the output is one continuation as
// "id:gap" words, gap being the distance of the two best logits of that step. Ends a continuation
// at TOKENS only; whoever compares knows the end tokens.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>

#include "engine/model_ends.h"
#include "engine/span_executor.h"

namespace meadow {
namespace {

struct Engine {
  std::unique_ptr<engine::ModelEnds> ends;
  std::unique_ptr<engine::SpanExecutor> executor;
};

Result<Engine> load(const char* path, DType cache) {
  const int threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  MEADOW_TRY(auto file, format::ModelFile::open(path));
  MEADOW_TRY(auto ends, engine::ModelEnds::load(file, threads));
  const auto& h = ends->hyperparameters();
  const BlockRange blocks{0, h.n_blocks};
  MEADOW_TRY(auto executor, engine::SpanExecutor::load(file, {blocks, cache, threads, h.n_ctx}));
  return Engine{std::move(ends), std::move(executor)};
}

Result<void> answer(Engine& e, std::vector<int32_t> ids, int tokens) {
  const auto width = static_cast<size_t>(e.ends->hyperparameters().n_embd);
  const SessionId id{};
  e.executor->close(id);
  MEADOW_TRY_VOID(e.executor->open(id, e.executor->blocks(), e.ends->hyperparameters().n_ctx));
  for (int i = 0; i < tokens; i++) {
    MEADOW_TRY(auto hidden, e.ends->embed(ids));
    MEADOW_TRY(auto out, e.executor->forward(id, e.executor->position(id), hidden, nullptr));
    MEADOW_TRY(auto logits, e.ends->logits(std::span(out).last(width)));
    const auto best = std::max_element(logits.begin(), logits.end());
    const float top = *best;
    ids = {static_cast<int32_t>(best - logits.begin())};
    *best = -std::numeric_limits<float>::infinity();
    std::printf("%s%d:%.5f", i ? " " : "", ids[0],
                top - *std::max_element(logits.begin(), logits.end()));
  }
  std::printf("\n");
  std::fflush(stdout);
  return {};
}

int run(int argc, char** argv) {
  if (argc < 3 || argc > 4) {
    std::fprintf(stderr, "usage: bench_greedy MODEL.gguf TOKENS [f32|f16] < prompts as ids\n");
    return 2;
  }
  const DType cache = argc == 4 && std::string(argv[3]) == "f16" ? DType::kF16 : DType::kF32;
  auto engine = load(argv[1], cache);
  for (std::string line; engine && std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::vector<int32_t> ids;
    for (int32_t id; words >> id;) ids.push_back(id);
    if (auto done = answer(*engine, ids, std::atoi(argv[2])); !done) engine = fail(done.error());
  }
  if (engine) return 0;
  std::fprintf(stderr, "%s\n", engine.error().text().c_str());
  return 1;
}

}  // namespace
}  // namespace meadow

int main(int argc, char** argv) { return meadow::run(argc, argv); }
