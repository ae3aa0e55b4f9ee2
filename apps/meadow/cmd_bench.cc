// meadow bench: how fast this machine runs a model whole. Random token ids: the speed does not
// depend on what they say.
#include <memory>

#include "client/local_chain.h"
#include "client/token_model.h"
#include "kernels/target.h"
#include "meadow/command.h"
#include "meadow/interrupt.h"
#include "meadow/options.h"
#include "meadow/terminal.h"

namespace meadow::apps {
namespace {

struct BenchCommand {
  std::string file;
  std::string cache = "f16";
  int64_t prompt = 512, gen = 64, repeat = 1;
  ComputeOptions compute;
  bool json = false;
};

struct Speeds {
  double prefill_tokens_per_s = 0, decode_tokens_per_s = 0;
};

Result<Speeds> measure(const BenchCommand& command, client::TokenModel& model, int64_t n_vocab,
                       ProgressBar& bar) {
  const SystemClock clock;
  Rng rng(1);
  std::vector<int32_t> ids(command.prompt);
  for (int32_t& id : ids) id = static_cast<int32_t>(rng.below(n_vocab));
  const CancelToken* cancel = &Interrupt::token();
  const int64_t total = command.prompt + command.gen;

  const TimePoint start = clock.now();
  for (int64_t at = 0; at < command.prompt; at += 256) {
    const int64_t n = std::min<int64_t>(256, command.prompt - at);
    MEADOW_TRY_VOID(
        model.advance(at, std::span(ids).subspan(at, n), at + n == command.prompt, cancel));
    bar.update(at + n, total);
  }
  const TimePoint middle = clock.now();
  for (int64_t i = 0; i < command.gen; i++) {
    const auto id = static_cast<int32_t>(rng.below(n_vocab));
    MEADOW_TRY_VOID(model.advance(command.prompt + i, {&id, 1}, true, cancel));
    bar.update(command.prompt + i + 1, total);
  }
  const TimePoint end = clock.now();
  return Speeds{static_cast<double>(command.prompt) / seconds(middle - start),
                static_cast<double>(command.gen) / seconds(end - middle)};
}

// Bytes of weights that one token reads: all blocks, the head and one embedding row.
uint64_t bytes_per_token(const format::ModelFile& file) {
  const bool tied = file.find("output.weight") == nullptr;
  uint64_t bytes = 0;
  for (const format::TensorInfo& tensor : file.tensors())
    if (tensor.name != "token_embd.weight" || tied) bytes += tensor.bytes;
  return bytes;
}

Result<ExitCode> run(const BenchCommand& command) {
  const SystemClock clock;
  MEADOW_TRY(const auto file, format::ModelFile::open(command.file));
  MEADOW_TRY(const auto parameters, model::hyperparameters(*file));
  const int64_t total = command.prompt + command.gen;
  if (total > parameters.n_ctx)
    return fail(Code::kInvalidArgument,
                "--prompt {} and --gen {} make {} positions, the model was made for {}",
                command.prompt, command.gen, total, parameters.n_ctx);
  const int threads = command.compute.effective_threads();
  MEADOW_TRY(const auto ends, engine::ModelEnds::load(file, threads));
  MEADOW_TRY(const auto chain,
             client::LocalChain::load(file, threads,
                                      command.cache == "f32" ? DType::kF32 : DType::kF16, total));
  client::ChainModel model(*ends, *chain);
  Speeds best;
  for (int64_t i = 0; i < command.repeat; i++) {
    ProgressBar bar("bench", clock);
    MEADOW_TRY(const Speeds speeds, measure(command, model, parameters.n_vocab, bar));
    best.prefill_tokens_per_s = std::max(best.prefill_tokens_per_s, speeds.prefill_tokens_per_s);
    best.decode_tokens_per_s = std::max(best.decode_tokens_per_s, speeds.decode_tokens_per_s);
  }
  const double gb_per_s =
      best.decode_tokens_per_s * static_cast<double>(bytes_per_token(*file)) / 1e9;
  const std::string target(kernels::name(kernels::active_target()));
  if (command.json) {
    put(to_line({{"file", command.file},
                 {"prompt", command.prompt},
                 {"gen", command.gen},
                 {"prefill_tokens_per_s", best.prefill_tokens_per_s},
                 {"decode_tokens_per_s", best.decode_tokens_per_s},
                 {"decode_gb_per_s", gb_per_s},
                 {"threads", threads},
                 {"cpu_target", target}}));
  } else {
    put(table({{"prefill", fmt::format("{:.1f} tokens/s", best.prefill_tokens_per_s)},
               {"decode", fmt::format("{:.1f} tokens/s", best.decode_tokens_per_s)},
               {"decode reads", fmt::format("{:.2f} GB/s of weights", gb_per_s)},
               {"threads", std::to_string(threads)},
               {"kernels", target}}));
  }
  return kExitOk;
}

}  // namespace

void add_bench(CLI::App& program, Selection& selection) {
  auto options = std::make_shared<BenchCommand>();
  CLI::App* command =
      program.add_subcommand("bench", "How fast this machine runs a model in one process");
  command->add_option("file", options->file, "The model file (GGUF)")->required();
  command->add_option("--prompt", options->prompt, "Tokens read in one go")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--gen", options->gen, "Tokens one by one after that")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--repeat", options->repeat, "Runs, of which the best counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--cache", options->cache, "Type of the attention cache")
      ->check(CLI::IsMember({"f16", "f32"}))
      ->capture_default_str();
  add_compute_options(*command, options->compute);
  add_json_option(*command, options->json);
  command->callback([&selection, options] {
    selection.json = &options->json;
    selection.run = [options] { return run(*options); };
  });
}

}  // namespace meadow::apps
