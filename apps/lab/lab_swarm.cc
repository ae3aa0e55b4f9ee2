#include "lab/lab_swarm.h"

#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace meadow::labapp {
namespace {

std::vector<std::string> with(std::vector<std::string> all, const std::vector<std::string>& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

Result<std::unique_ptr<LabSwarm>> LabSwarm::start(Programs programs, const lab::Lab& lab,
                                                  size_t bootstrap_host, TimePoint until) {
  std::string folder = (std::filesystem::temp_directory_path() / "meadow-lab-XXXXXX").string();
  if (!mkdtemp(folder.data()))
    return fail(Code::kPermissionDenied, "no temporary folder {}: {}", folder,
                std::strerror(errno));
  std::unique_ptr<LabSwarm> swarm(new LabSwarm(std::move(programs), lab, std::move(folder)));
  MEADOW_TRY(auto bootstrap,
             swarm->launch(bootstrap_host, {"bootstrap", "--json", "--swarm", "lab:secret",
                                            "--listen", swarm->listen_at(bootstrap_host)}));
  MEADOW_TRY_VOID(apps::read_ready_line(bootstrap, until));
  swarm->bootstrap_ = std::make_unique<apps::PeerProcess>(std::move(bootstrap));
  return swarm;
}

LabSwarm::~LabSwarm() {
  servers_.clear();
  bootstrap_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::string LabSwarm::listen_at(size_t host) {
  return fmt::format("{}:{}", lab_.address_of(host), next_port_++);
}

Result<apps::ChildProcess> LabSwarm::run(size_t host, std::vector<std::string> arguments,
                                         const std::string& input) const {
  // meadow-lab becomes the program: the child is the program itself.
  return apps::ChildProcess::start(
      with({programs_.lab, "exec", lab_.network(host).path(), "-", "--", programs_.meadow},
           arguments),
      {{"XDG_STATE_HOME", folder_}}, input);
}

Result<apps::PeerProcess> LabSwarm::launch(size_t host, std::vector<std::string> arguments) const {
  MEADOW_TRY(auto process, run(host, arguments));
  arguments.insert(arguments.begin(), programs_.meadow);
  return apps::PeerProcess{std::move(process), std::move(arguments), {}, {}, {}, {}};
}

Result<size_t> LabSwarm::add_server(size_t host, const std::string& model, BlockRange blocks,
                                    std::vector<std::string> more_arguments) {
  MEADOW_TRY(auto server,
             launch(host, with({"serve", model, "--json", "--join", bootstrap_->invite, "--listen",
                                listen_at(host), "--blocks",
                                fmt::format("{}:{}", blocks.first, blocks.last), "--threads", "1"},
                               more_arguments)));
  server.blocks = blocks;
  servers_.push_back(std::move(server));
  host_of_.push_back(host);
  return servers_.size() - 1;
}

Result<void> LabSwarm::wait_ready(TimePoint until) {
  for (apps::PeerProcess& server : servers_)
    if (server.peer.empty()) MEADOW_TRY_VOID(apps::read_ready_line(server, until));
  return {};
}

Result<void> LabSwarm::restart_server(size_t index, TimePoint until) {
  apps::PeerProcess& old = servers_[index];
  old.process.kill();
  MEADOW_TRY(auto server, launch(host_of_[index], {old.argv.begin() + 1, old.argv.end()}));
  server.blocks = old.blocks;
  old = std::move(server);
  return apps::read_ready_line(old, until);
}

std::optional<size_t> LabSwarm::find(const std::string& peer) const {
  for (size_t i = 0; i < servers_.size(); i++)
    if (servers_[i].peer == peer) return i;
  return std::nullopt;
}

}  // namespace meadow::labapp
