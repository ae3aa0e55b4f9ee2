// The program: parses the command line, runs one subcommand, turns its error into an exit code.
#include <CLI/CLI.hpp>
#include <algorithm>

#include "meadow/command.h"
#include "meadow/interrupt.h"
#include "meadow/terminal.h"

namespace meadow::apps {
namespace {

constexpr char kFooter[] = R"(Examples:
  meadow generate --local --model m.gguf --prompt "Three facts about rivers:"
  meadow bootstrap --swarm friends:secret --listen 192.0.2.7:7100      (prints an invite)
  meadow serve m.gguf --join INVITE --blocks 0:15
  meadow chat INVITE --model m.gguf
  meadow status INVITE

Exit codes: 0 done, 1 a check failed, 2 usage, 3 not found, 4 corrupt or unsupported file,
5 no server or too late, 6 no room, 7 denied, 70 internal, 130 cancelled.)";

bool has_command(const CLI::App& program, std::string_view name) {
  const auto all = program.get_subcommands([](const CLI::App*) { return true; });
  return std::any_of(all.begin(), all.end(),
                     [&](const CLI::App* command) { return command->get_name() == name; });
}

int run(int argc, char** argv) {
  Interrupt::install();
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
  if (argc > 1 && argv[1][0] != '-' && !has_command(program, argv[1])) {
    report({Code::kInvalidArgument,
            fmt::format("there is no command {}: meadow help lists them", printable(argv[1]))},
           false);
    return kExitUsage;
  }
  try {
    program.parse(argc, argv);
  } catch (const CLI::CallForHelp& e) {
    return program.exit(e);
  } catch (const CLI::CallForAllHelp& e) {
    return program.exit(e);
  } catch (const CLI::ParseError& e) {
    report({Code::kInvalidArgument, e.what()}, false);
    say("Try: meadow help, or meadow COMMAND --help");
    return kExitUsage;
  }
  Result<ExitCode> result = selection.run();
  if (result) return *result;
  report(result.error(), selection.json && *selection.json);
  return exit_code(result.error().code);
}

}  // namespace
}  // namespace meadow::apps

int main(int argc, char** argv) { return meadow::apps::run(argc, argv); }
