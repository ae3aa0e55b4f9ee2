#include <memory>

#include "kernels/matmul.h"
#include "kernels/target.h"
#include "meadow/command.h"
#include "meadow/options.h"
#include "meadow/terminal.h"
#include "meadow/version.h"

namespace meadow::apps {

void add_version(CLI::App& program, Selection& selection) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = program.add_subcommand("version", "Version, numerics, processor");
  add_json_option(*command, *json);
  command->callback([&selection, json] {
    selection.json = json.get();
    selection.run = [json]() -> Result<ExitCode> {
      const std::string target(kernels::name(kernels::active_target()));
      if (*json) {
        put(to_line({{"version", kVersion},
                     {"numerics", kernels::kNumericsVersion},
                     {"cpu_target", target}}));
      } else {
        put(fmt::format("meadow {}, numerics {}, kernels for {}\n", kVersion,
                        kernels::kNumericsVersion, target));
      }
      return kExitOk;
    };
  });
}

}  // namespace meadow::apps
