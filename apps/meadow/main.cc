// The program: parses the command line, runs one subcommand, turns its error into an exit code.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>

#include "kernels/target.h"
#include "meadow/command.h"
#include "meadow/interrupt.h"
#include "meadow/options.h"
#include "meadow/terminal.h"

namespace meadow::apps {
namespace {

constexpr char kFooter[] = R"(Examples:
  meadow generate --local --model m.gguf --prompt "Three facts about rivers:"
  meadow bootstrap --swarm friends:secret --listen 192.0.2.7:7100      (prints an invite)
  meadow serve m.gguf --join INVITE --blocks 0:15
  meadow chat INVITE --model m.gguf
  meadow status INVITE

Environment:
  MEADOW_CPU    instruction set to compute with: scalar, neon, avx2, avx512, avx512vnni (default:
                the best that this processor runs; the answers are the same to the last bit)
  XDG_STATE_HOME, HOME
                where keys of peers are kept: $XDG_STATE_HOME/meadow, else
                $HOME/.local/state/meadow, else under the current folder

Exit codes: 0 done, 1 a check failed, 2 usage, 3 not found, 4 corrupt or unsupported file,
5 no server or too late, 6 no room, 7 denied, 70 internal, 130 cancelled.)";

bool has_command(const CLI::App& program, std::string_view name) {
  const auto all = program.get_subcommands([](const CLI::App*) { return true; });
  return std::any_of(all.begin(), all.end(),
                     [&](const CLI::App* command) { return command->get_name() == name; });
}

// What an error in the command line itself is told as: its options are not known then.
bool asks_for_json(int argc, char** argv) {
  for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; i++)
    if (std::string_view(argv[i]) == "--json" || std::string_view(argv[i]) == "--events")
      return true;
  return false;
}

// Tells an error, or that output did not arrive, and returns the exit code.
int end(Result<ExitCode> result, bool json) {
  // An answer whose output is lost is cancelled; the loss is what to tell.
  if (result && (*result == kExitOk || *result == kExitCancelled))
    if (const auto written = output_written(); !written) result = fail(written.error());
  if (result) return *result;
  report(result.error(), json);
  return exit_code(result.error().code);
}

int run(int argc, char** argv) {
  Interrupt::install();
  const bool json = asks_for_json(argc, argv);
  if (const auto chosen = kernels::check_target_choice(); !chosen)
    return end(fail(chosen.error()), json);
  CLI::App program(
      "Meadow runs language models that no machine of yours holds alone, over servers that hold "
      "some blocks each.",
      "meadow");
  program.require_subcommand(1);
  program.get_formatter()->column_width(32);
  Selection selection;
  add_chat(program, selection);
  add_generate(program, selection);
  add_serve(program, selection);
  add_bootstrap(program, selection);
  add_status(program, selection);
  add_inspect(program, selection);
  add_bench(program, selection);
  add_perplexity(program, selection);
  add_simulate(program, selection);
  add_demo(program, selection);
  add_version(program, selection);
  program.footer(kFooter);
  // Before parsing: after it, help() is about the subcommand.
  const std::string help = program.help();
  program.add_subcommand("help", "This text")->callback([&] {
    selection.run = [&]() -> Result<ExitCode> {
      put(help);
      return kExitOk;
    };
  });

  // CLI11 would only say that a subcommand is required.
  if (argc > 1 && argv[1][0] != '-' && !has_command(program, argv[1]))
    return end(fail(Code::kInvalidArgument, "there is no command {}: meadow help lists them",
                    printable(argv[1])),
               json);
  try {
    program.parse(argc, argv);
  } catch (const CLI::Success& e) {  // --help
    std::ostringstream text;
    program.exit(e, text, text);
    put(text.str());
    return end(kExitOk, json);
  } catch (const CLI::ParseError& e) {
    const int code = end(fail(Code::kInvalidArgument, "{}", e.what()), json);
    say("Try: meadow help, or meadow COMMAND --help");
    return code;
  }
  return end(selection.run(), selection.json && *selection.json);
}

}  // namespace
}  // namespace meadow::apps

int main(int argc, char** argv) { return meadow::apps::run(argc, argv); }
