// meadow bootstrap: a peer that introduces members of a swarm to each other and holds no blocks.
#include <memory>

#include "meadow/command.h"
#include "meadow/interrupt.h"
#include "meadow/node.h"
#include "meadow/options.h"
#include "meadow/terminal.h"

namespace meadow::apps {
namespace {

struct BootstrapCommand {
  JoinOptions join;
  std::string invite;
  bool json = false;
};

void print_ready(const Node& node, bool json) {
  const std::string invite = node.invite(Digest{});
  if (json) {
    put(to_line(
        {{"peer", hex(node.identity().id())}, {"listen", node.address()}, {"invite", invite}}));
    return;
  }
  put(fmt::format("swarm   {}{}\npeer    {}\nlisten  {}\ninvite  {}\n", node.swarm_key().name,
                  node.swarm_key().secret.empty() ? " (open: whoever knows the name gets in)" : "",
                  hex(node.identity().id()), node.address(), invite));
  say("The invite lets its holder in: pass it on with care. Ctrl-C leaves.");
}

Result<ExitCode> run(BootstrapCommand& command) {
  if (!command.invite.empty()) command.join.join.push_back(command.invite);
  const SystemClock clock;
  MEADOW_TRY(const auto node, Node::start(command.join, {"bootstrap", Digest{}, false}, clock));
  print_ready(*node, command.json);
  MEADOW_TRY_VOID(output_written());  // nobody could know the invite
  Interrupt::wait(TimePoint::max());
  return kExitOk;
}

}  // namespace

void add_bootstrap(CLI::App& program, Selection& selection) {
  auto options = std::make_shared<BootstrapCommand>();
  CLI::App* command =
      program.add_subcommand("bootstrap", "Introduce the members of a swarm to each other");
  command->add_option("invite", options->invite, "The invite of a swarm that is there already");
  add_join_options(*command, options->join, "127.0.0.1:7100");
  add_json_option(*command, options->json);
  command->callback([&selection, options] {
    selection.json = &options->json;
    selection.run = [options] { return run(*options); };
  });
}

}  // namespace meadow::apps
