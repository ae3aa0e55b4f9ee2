#include "meadow/local_swarm.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace meadow::apps {
namespace {

TimePoint in(Duration d) { return SystemClock().now() + d; }

}  // namespace

// Reads the first line of a peer: {"peer": …, "listen": …, "invite": …}.
Result<void> read_ready_line(PeerProcess& peer, TimePoint until) {
  const std::optional<std::string> line = peer.process.read_line(until);
  const Json ready = line ? Json::parse(*line, nullptr, false) : Json();
  if (!ready.is_object() || !ready.contains("peer")) {
    const std::optional<Exit> exit = peer.process.wait(in(200ms));
    return fail(Code::kUnavailable, "{} {} did not get ready ({}): {}{}", peer.argv[0],
                peer.argv[1], exit ? exit->text() : "still running", line.value_or(""),
                peer.process.stderr_text());
  }
  peer.peer = ready.value("peer", "");
  peer.listen = ready.value("listen", "");
  peer.invite = ready.value("invite", "");
  return {};
}

Result<std::string> own_path() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return fail(Code::kInternal, "/proc/self/exe: {}", error.message());
  return path.string();
}

Result<PeerProcess> LocalSwarm::launch(std::vector<std::string> arguments) const {
  arguments.insert(arguments.begin(), program_);
  MEADOW_TRY(auto process, ChildProcess::start(arguments, {{"XDG_STATE_HOME", folder_}}));
  return PeerProcess{std::move(process), std::move(arguments), {}, {}, {}, {}};
}

Result<LocalSwarm> LocalSwarm::start(std::string program, std::string swarm, TimePoint until,
                                     std::string host) {
  std::string folder = (std::filesystem::temp_directory_path() / "meadow-XXXXXX").string();
  if (!mkdtemp(folder.data()))
    return fail(Code::kPermissionDenied, "no temporary folder {}: {}", folder,
                std::strerror(errno));
  LocalSwarm local(std::move(program), std::move(folder), std::move(host));
  MEADOW_TRY(const int port, free_port());
  MEADOW_TRY(auto bootstrap, local.launch({"bootstrap", "--json", "--swarm", std::move(swarm),
                                           "--listen", fmt::format("{}:{}", local.host_, port)}));
  MEADOW_TRY_VOID(read_ready_line(bootstrap, until));
  local.bootstrap_ = std::make_unique<PeerProcess>(std::move(bootstrap));
  return local;
}

LocalSwarm::~LocalSwarm() {
  if (folder_.empty()) return;
  servers_.clear();
  bootstrap_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

Result<size_t> LocalSwarm::add_server(const std::string& model, BlockRange blocks,
                                      std::vector<std::string> more_arguments) {
  MEADOW_TRY(const int port, free_port());
  std::vector<std::string> arguments = {"serve",
                                        model,
                                        "--json",
                                        "--join",
                                        bootstrap_->invite,
                                        "--listen",
                                        fmt::format("{}:{}", host_, port),
                                        "--blocks",
                                        fmt::format("{}:{}", blocks.first, blocks.last),
                                        "--threads",
                                        "1"};
  arguments.insert(arguments.end(), more_arguments.begin(), more_arguments.end());
  MEADOW_TRY(auto server, launch(std::move(arguments)));
  server.blocks = blocks;
  servers_.push_back(std::move(server));
  return servers_.size() - 1;
}

Result<void> LocalSwarm::wait_ready(TimePoint until) {
  for (PeerProcess& server : servers_)
    if (server.peer.empty()) MEADOW_TRY_VOID(read_ready_line(server, until));
  return {};
}

Result<void> LocalSwarm::restart_server(size_t index, TimePoint until) {
  PeerProcess& old = servers_[index];
  old.process.kill();
  MEADOW_TRY(auto server, launch({old.argv.begin() + 1, old.argv.end()}));
  server.blocks = old.blocks;
  old = std::move(server);
  return read_ready_line(old, until);
}

PeerProcess* LocalSwarm::find(const std::string& peer) {
  for (PeerProcess& server : servers_)
    if (server.peer == peer) return &server;
  return nullptr;
}

Result<ChildProcess> LocalSwarm::run(std::vector<std::string> arguments,
                                     const std::string& input) const {
  arguments.insert(arguments.begin(), program_);
  return ChildProcess::start(std::move(arguments), {{"XDG_STATE_HOME", folder_}}, input);
}

void LocalSwarm::stop() {
  std::vector<PeerProcess*> all;
  for (PeerProcess& server : servers_) all.push_back(&server);
  if (bootstrap_) all.push_back(bootstrap_.get());
  for (PeerProcess* peer : all) peer->process.send_signal(SIGTERM);
  // A stopped process would not see it.
  for (PeerProcess* peer : all) peer->process.send_signal(SIGCONT);
  const TimePoint until = in(2s);
  for (PeerProcess* peer : all)
    if (!peer->process.wait(until)) peer->process.kill();
}

}  // namespace meadow::apps
