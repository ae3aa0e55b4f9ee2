// meadow perplexity: how well a model predicts a text, to compare weight types and programs.
#include <fstream>
#include <iostream>
#include <memory>

#include "engine/model_ends.h"
#include "engine/span_executor.h"
#include "format/model_file.h"
#include "kernels/target.h"
#include "meadow/command.h"
#include "meadow/interrupt.h"
#include "meadow/options.h"
#include "meadow/perplexity.h"
#include "meadow/terminal.h"

namespace meadow::apps {
namespace {

// Positions whose logits are held at once: their memory is this times the vocabulary.
constexpr int64_t kLogitsAtOnce = 32;

struct PerplexityCommand {
  std::string file, text;
  std::string cache = "f16";
  int64_t context = 512, windows = 0;
  ComputeOptions compute;
  bool json = false;

  DType cache_type() const { return cache_type_of(cache); }
};

Result<std::string> read_text(const std::string& path) {
  std::ifstream file;
  if (path != "-") {
    file.open(path, std::ios::binary);
    if (!file) return fail(Code::kNotFound, "cannot read the text from {}", path);
  }
  std::istream& in = path == "-" ? std::cin : file;
  std::string text;
  char buffer[1 << 16];
  while (in.read(buffer, sizeof buffer) || in.gcount() > 0) {
    text.append(buffer, static_cast<size_t>(in.gcount()));
    if (text.size() > text::kMaxTextBytes)
      return fail(Code::kResourceExhausted, "{}: more than {} bytes of text", path,
                  text::kMaxTextBytes);
  }
  if (in.bad()) return fail(Code::kNotFound, "cannot read the text from {}", path);
  return text;
}

using Windows = std::vector<std::vector<text::TokenId>>;

Result<Windows> read_windows(const PerplexityCommand& command, const format::ModelFile& file) {
  MEADOW_TRY(const auto tokenizer, text::Tokenizer::from(file.metadata()));
  MEADOW_TRY(const std::string text, read_text(command.text));
  // What looks like a control token is text here, as in llama.cpp's tool.
  MEADOW_TRY(const auto ids, tokenizer->encode(text, {.parse_special = false}));
  const text::TokenId bos = tokenizer->add_bos() ? tokenizer->bos() : text::kNoToken;
  return windows_of(ids, command.context, bos, command.windows);
}

class Scorer {
 public:
  static Result<Scorer> load(const PerplexityCommand& command,
                             std::shared_ptr<format::ModelFile> file) {
    const int threads = command.compute.effective_threads();
    MEADOW_TRY(auto ends, engine::ModelEnds::load(file, threads));
    engine::SpanOptions options;
    options.blocks = {0, ends->hyperparameters().n_blocks};
    options.cache_type = command.cache_type();
    options.threads = threads;
    options.cache_tokens = command.context;
    MEADOW_TRY(auto executor, engine::SpanExecutor::load(std::move(file), options));
    MEADOW_TRY_VOID(executor->open(SessionId{}, options.blocks, command.context));
    return Scorer(std::move(ends), std::move(executor));
  }

  // Adds what the window's second half is worth.
  Result<void> add(std::span<const text::TokenId> window, Perplexity& perplexity) {
    const CancelToken* cancel = &Interrupt::token();
    MEADOW_TRY(const auto in, ends_->embed(window));
    MEADOW_TRY(const auto out, executor_->forward(SessionId{}, 0, in, cancel));
    const auto context = static_cast<int64_t>(window.size());
    const auto width = static_cast<size_t>(ends_->hyperparameters().n_embd);
    const auto vocabulary = static_cast<size_t>(ends_->hyperparameters().n_vocab);
    for (int64_t at = first_scored(context); at < context - 1; at += kLogitsAtOnce) {
      const auto n = static_cast<size_t>(std::min(kLogitsAtOnce, context - 1 - at));
      const auto first = static_cast<size_t>(at);
      MEADOW_TRY(const auto logits,
                 ends_->logits(std::span(out).subspan(first * width, n * width)));
      for (size_t i = 0; i < n; i++)
        perplexity.add(
            surprise(std::span(logits).subspan(i * vocabulary, vocabulary), window[first + i + 1]));
    }
    return {};
  }

 private:
  Scorer(std::unique_ptr<engine::ModelEnds> ends, std::unique_ptr<engine::SpanExecutor> executor)
      : ends_(std::move(ends)), executor_(std::move(executor)) {}

  std::unique_ptr<engine::ModelEnds> ends_;
  std::unique_ptr<engine::SpanExecutor> executor_;
};

void tell(const PerplexityCommand& command, const Perplexity& perplexity, size_t windows,
          double taken) {
  const double speed = static_cast<double>(windows) * static_cast<double>(command.context) / taken;
  const std::string target(kernels::name(kernels::active_target()));
  if (command.json)
    put(to_line({{"file", command.file},
                 {"text", command.text},
                 {"context", command.context},
                 {"windows", windows},
                 {"tokens_scored", perplexity.tokens()},
                 {"perplexity", perplexity.perplexity()},
                 {"standard_error", perplexity.error()},
                 {"mean_surprise", perplexity.mean()},
                 {"cache_type", command.cache},
                 {"tokens_per_s", speed},
                 {"cpu_target", target}}));
  else
    put(
        fmt::format("perplexity {:.4f} ± {:.4f}\n{} tokens scored in {} windows of {}, {} cache, "
                    "{:.0f} tokens/s\n",
                    perplexity.perplexity(), perplexity.error(), perplexity.tokens(), windows,
                    command.context, command.cache, speed));
}

Result<ExitCode> run(const PerplexityCommand& command) {
  MEADOW_TRY(const auto file, format::ModelFile::open(command.file));
  MEADOW_TRY(const auto parameters, model::hyperparameters(*file));
  if (command.context > parameters.n_ctx)
    return fail(Code::kInvalidArgument, "--context {}: the model was made for {} positions",
                command.context, parameters.n_ctx);
  MEADOW_TRY(const Windows windows, read_windows(command, *file));
  MEADOW_TRY(auto scorer, Scorer::load(command, file));
  const SystemClock clock;
  ProgressBar bar("perplexity", clock);
  Perplexity perplexity;
  const TimePoint start = clock.now();
  for (size_t i = 0; i < windows.size(); i++) {
    MEADOW_TRY_VOID(scorer.add(windows[i], perplexity));
    bar.update(static_cast<int64_t>(i) + 1, static_cast<int64_t>(windows.size()));
  }
  bar.finish();
  tell(command, perplexity, windows.size(), seconds(clock.now() - start));
  return kExitOk;
}

}  // namespace

void add_perplexity(CLI::App& program, Selection& selection) {
  auto options = std::make_shared<PerplexityCommand>();
  CLI::App* command =
      program.add_subcommand("perplexity", "How well a model predicts a text; less is better");
  command->add_option("file", options->file, "The model file (GGUF)")->required();
  command->add_option("--text", options->text, "File with the text; - is standard input")
      ->required();
  command
      ->add_option("--context", options->context,
                   "Tokens of a window; the second half of each is scored")
      ->check(CLI::Range(4, 1 << 20))
      ->capture_default_str();
  command->add_option("--windows", options->windows, "At most so many windows; 0: all")
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str();
  command->add_option("--cache-type,--cache", options->cache, "Type of the attention cache")
      ->check(CLI::IsMember(kCacheTypes))
      ->capture_default_str();
  add_compute_options(*command, options->compute);
  add_json_option(*command, options->json);
  command->callback([&selection, options] {
    selection.json = &options->json;
    selection.run = [options] { return run(*options); };
  });
}

}  // namespace meadow::apps
