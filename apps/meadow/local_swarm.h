// A swarm of real processes on loopback: a bootstrap peer and servers, for `meadow demo` and the
// end-to-end tests.
// Thread rule: one thread per object. Owns the processes and a temporary folder with their keys;
// both are gone with it.
#pragma once
#include <deque>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/types.h"
#include "meadow/child_process.h"
#include "meadow/terminal.h"

namespace meadow::apps {

// A process that printed its ready line.
struct PeerProcess {
  ChildProcess process;
  std::vector<std::string> argv;
  std::string peer, listen, invite;  // from the ready line
  BlockRange blocks;                 // of servers
};

// Reads the first line of a peer that was started with --json. Blocks until `until` at most;
// kUnavailable with the peer's own words if it did not get ready.
Result<void> read_ready_line(PeerProcess& peer, TimePoint until);

class LocalSwarm {
 public:
  // `program`: path of meadow. `swarm`: NAME[:SECRET]. `host`: a loopback address, in brackets if
  // it is IPv6. Starts the bootstrap peer and blocks until it is ready or `until` has come.
  static Result<LocalSwarm> start(std::string program, std::string swarm, TimePoint until,
                                  std::string host = "127.0.0.1");
  ~LocalSwarm();
  LocalSwarm(LocalSwarm&&) noexcept = default;
  LocalSwarm& operator=(LocalSwarm&&) noexcept = default;

  // Starts a server without waiting for it; wait_ready() does. Returns its index.
  Result<size_t> add_server(const std::string& model, BlockRange blocks,
                            std::vector<std::string> more_arguments = {});
  // Blocks until every server printed its ready line; kUnavailable with the server's own words if
  // one did not.
  Result<void> wait_ready(TimePoint until);
  // Starts server `index` again with the same arguments, key and port, after it died.
  Result<void> restart_server(size_t index, TimePoint until);

  PeerProcess& bootstrap() { return *bootstrap_; }
  PeerProcess& server(size_t index) { return servers_[index]; }
  size_t size() const { return servers_.size(); }
  // The server with this peer id (hex); null if there is none.
  PeerProcess* find(const std::string& peer);
  // What a client needs.
  const std::string& invite() const { return bootstrap_->invite; }

  // Runs a command of the program in this swarm's environment.
  Result<ChildProcess> run(std::vector<std::string> arguments, const std::string& input = "") const;

  // SIGTERM to all, SIGKILL to those that are still there after two seconds.
  void stop();

 private:
  LocalSwarm(std::string program, std::string folder, std::string host)
      : program_(std::move(program)), folder_(std::move(folder)), host_(std::move(host)) {}

  Result<PeerProcess> launch(std::vector<std::string> arguments) const;

  std::string program_;
  std::string folder_;  // of the keys
  std::string host_;
  std::unique_ptr<PeerProcess> bootstrap_;
  std::deque<PeerProcess> servers_;
};

// The path of the running program.
Result<std::string> own_path();

}  // namespace meadow::apps
