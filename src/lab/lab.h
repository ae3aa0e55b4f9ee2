// A running lab: its hosts' networks and the relay between them.
// Thread rule: start() and destruction by one thread, the rest from any. Owns the networks and the
// relay; with the object, or with the process however it ends, all of it is gone.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "lab/host_network.h"
#include "lab/lab_file.h"
#include "lab/relay.h"

namespace meadow::lab {

class Lab {
 public:
  // kPermissionDenied, kUnsupported or kNotFound name what this machine lacks.
  static Result<std::unique_ptr<Lab>> start(LabFile file);

  const LabFile& file() const { return file_; }
  size_t size() const { return hosts_.size(); }
  uint32_t address(size_t host) const { return addresses_[host]; }
  std::string address_of(size_t host) const { return address_text(addresses_[host]); }
  const HostNetwork& network(size_t host) const { return hosts_[host]; }
  // `text` with every {NAME} of a host replaced by its address.
  std::string with_addresses(std::string text) const;

  // Changes the link between two hosts, both ways, for packets from now on.
  Result<void> set_link(size_t a, size_t b, const LinkShape& shape);
  // Changes all links.
  Result<void> set_links(const LinkShape& shape);
  // What goes out of a host and comes into it, in bits per second; 0: no limit.
  Result<void> set_rate(size_t host, double up, double down);

  LinkShape link(size_t a, size_t b) const { return relay_->shape(a, b); }
  RelayStats stats() const { return relay_->stats(); }
  bool has_priority() const { return relay_->has_priority(); }
  bool keeps_awake() const { return relay_->keeps_awake(); }

 private:
  explicit Lab(LabFile file) : file_(std::move(file)) {}
  Result<void> make_hosts();
  Result<void> update_offload();

  LabFile file_;
  std::vector<uint32_t> addresses_;
  std::vector<HostNetwork> hosts_;
  std::unique_ptr<Relay> relay_;  // after the devices: it stops before they close
};

}  // namespace meadow::lab
