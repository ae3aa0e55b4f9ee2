// How a subcommand is registered: each file cmd_*.cc adds its options to the program and says what
// to run. Library code returns errors; only main() turns them into exit codes.
// Thread rule: main thread.
#pragma once
#include <CLI/CLI.hpp>
#include <functional>

#include "base/result.h"
#include "meadow/exit_codes.h"

namespace meadow::apps {

// What main() runs once the command line is parsed.
struct Selection {
  std::function<Result<ExitCode>()> run;
  const bool* json = nullptr;  // errors go to stdout as JSON too
};

void add_generate(CLI::App& program, Selection& selection);
void add_chat(CLI::App& program, Selection& selection);
void add_serve(CLI::App& program, Selection& selection);
void add_bootstrap(CLI::App& program, Selection& selection);
void add_status(CLI::App& program, Selection& selection);
void add_inspect(CLI::App& program, Selection& selection);
void add_bench(CLI::App& program, Selection& selection);
void add_perplexity(CLI::App& program, Selection& selection);
void add_simulate(CLI::App& program, Selection& selection);
void add_demo(CLI::App& program, Selection& selection);
void add_version(CLI::App& program, Selection& selection);

}  // namespace meadow::apps
