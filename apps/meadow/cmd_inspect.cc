// meadow inspect: what is in a model file, and whether Meadow can run it.
#include <memory>

#include "format/inspect.h"
#include "format/model_file.h"
#include "meadow/command.h"
#include "meadow/options.h"
#include "meadow/terminal.h"
#include "model/hyperparameters.h"
#include "text/tokenizer.h"

namespace meadow::apps {
namespace {

struct InspectCommand {
  std::string file;
  bool hashes = false, json = false;
};

Json model_json(const model::Hyperparameters& h) {
  return {{"n_blocks", h.n_blocks},   {"n_embd", h.n_embd},     {"n_head", h.n_head},
          {"n_head_kv", h.n_head_kv}, {"head_dim", h.head_dim}, {"n_ff", h.n_ff},
          {"n_vocab", h.n_vocab},     {"n_ctx", h.n_ctx}};
}

Result<ExitCode> run(const InspectCommand& command) {
  MEADOW_TRY(const auto file, format::ModelFile::open(command.file));
  const auto parameters = model::hyperparameters(*file);
  const auto tokenizer = text::Tokenizer::from(file->metadata());
  if (command.json) {
    MEADOW_TRY(const std::string text, format::describe_json(*file, command.hashes));
    Json json = Json::parse(text, nullptr, false);
    json["model"] =
        parameters ? model_json(*parameters) : Json{{"error", parameters.error().text()}};
    json["tokenizer"] =
        tokenizer ? Json{{"pre", (*tokenizer)->pre()}} : Json{{"error", tokenizer.error().text()}};
    put(to_line(json));
    return kExitOk;
  }
  MEADOW_TRY(const std::string text, format::describe(*file, command.hashes));
  put(text);
  if (!parameters) put("cannot be run: " + printable(parameters.error().message) + "\n");
  if (!tokenizer) put("cannot be talked to: " + printable(tokenizer.error().message) + "\n");
  if (parameters && tokenizer) put("can be served and talked to\n");
  return kExitOk;
}

}  // namespace

void add_inspect(CLI::App& program, Selection& selection) {
  auto options = std::make_shared<InspectCommand>();
  CLI::App* command = program.add_subcommand("inspect", "What is in a model file");
  command->add_option("file", options->file, "The model file (GGUF)")->required();
  command->add_flag("--hashes", options->hashes, "Content hash of every block (reads them all)");
  add_json_option(*command, options->json);
  command->callback([&selection, options] {
    selection.json = &options->json;
    selection.run = [options] { return run(*options); };
  });
}

}  // namespace meadow::apps
