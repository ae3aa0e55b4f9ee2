// A swarm of real processes in a lab: a bootstrap peer and servers, each in a host of its own or
// shared, for the end-to-end tests and the benches.
// Thread rule: one thread per object. Owns the processes and a temporary folder with their keys;
// both are gone with it. The lab must outlive it.
#pragma once
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/types.h"
#include "lab/lab.h"
#include "meadow/child_process.h"
#include "meadow/local_swarm.h"

namespace meadow::labapp {

struct Programs {
  std::string meadow, lab;  // paths of meadow and meadow-lab
};

class LabSwarm {
 public:
  // Starts the bootstrap peer in the host. Blocks until it is ready or `until` has come.
  static Result<std::unique_ptr<LabSwarm>> start(Programs programs, const lab::Lab& lab,
                                                 size_t bootstrap_host, TimePoint until);
  ~LabSwarm();
  LabSwarm(const LabSwarm&) = delete;
  LabSwarm& operator=(const LabSwarm&) = delete;

  // Starts a server in a host without waiting for it; wait_ready() does. Returns its index.
  Result<size_t> add_server(size_t host, const std::string& model, BlockRange blocks,
                            std::vector<std::string> more_arguments = {});
  Result<void> wait_ready(TimePoint until);
  // The server is killed if it still lives, and started again with the same key and address.
  Result<void> restart_server(size_t index, TimePoint until);

  apps::PeerProcess& bootstrap() { return *bootstrap_; }
  apps::PeerProcess& server(size_t index) { return servers_[index]; }
  size_t size() const { return servers_.size(); }
  // The index of the server with this peer id (hex).
  std::optional<size_t> find(const std::string& peer) const;
  const std::string& invite() const { return bootstrap_->invite; }

  // Runs a command of the program in a host.
  Result<apps::ChildProcess> run(size_t host, std::vector<std::string> arguments,
                                 const std::string& input = "") const;

 private:
  LabSwarm(Programs programs, const lab::Lab& lab, std::string folder)
      : programs_(std::move(programs)), lab_(lab), folder_(std::move(folder)) {}

  Result<apps::PeerProcess> launch(size_t host, std::vector<std::string> arguments) const;
  // A port that no other peer of this swarm has.
  std::string listen_at(size_t host);

  Programs programs_;
  const lab::Lab& lab_;
  std::string folder_;
  int next_port_ = 7100;
  std::unique_ptr<apps::PeerProcess> bootstrap_;
  std::deque<apps::PeerProcess> servers_;
  std::vector<size_t> host_of_;
};

}  // namespace meadow::labapp
