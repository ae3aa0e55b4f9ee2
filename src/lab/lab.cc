#include "lab/lab.h"

#include <algorithm>

#include "base/check.h"

namespace meadow::lab {
namespace {

constexpr uint32_t kNetwork = 0x0a5a0000;  // 10.90.0.0/16: nobody else's, inside the namespaces

}  // namespace

Result<std::unique_ptr<Lab>> Lab::start(LabFile file) {
  std::unique_ptr<Lab> lab(new Lab(std::move(file)));
  MEADOW_TRY_VOID(lab->make_hosts());
  std::vector<RelayPort> ports;
  for (size_t i = 0; i < lab->size(); i++)
    ports.push_back({lab->hosts_[i].device(), lab->addresses_[i]});
  lab->relay_ = std::make_unique<Relay>(std::move(ports), lab->file_);
  MEADOW_TRY_VOID(lab->update_offload());
  MEADOW_TRY_VOID(lab->relay_->start());
  return lab;
}

// Hosts of the n-th region are 10.90.n.1 and following.
Result<void> Lab::make_hosts() {
  std::vector<std::string> regions;
  std::vector<uint32_t> used;
  for (const HostDescription& host : file_.hosts) {
    auto at = std::find(regions.begin(), regions.end(), host.region);
    if (at == regions.end()) {
      at = regions.insert(at, host.region);
      used.push_back(0);
    }
    const auto region = static_cast<uint32_t>(at - regions.begin());
    const uint32_t address = kNetwork | region << 8 | ++used[region];
    auto made = HostNetwork::make(address, file_.mtu);
    if (!made) return fail(made.error().within(fmt::format("the lab's host {}", host.name)));
    if (auto set = made->set_congestion(file_.congestion); !set)
      return fail(set.error().within(fmt::format("option congestion={}", file_.congestion)));
    if (host.up > 0) MEADOW_TRY_VOID(made->limit_up(host.up, file_.mtu));
    addresses_.push_back(address);
    hosts_.push_back(std::move(*made));
  }
  return {};
}

// A large packet would be lost, or wait its turn, as a whole: with losses, or rates that the relay
// keeps, hosts send what fits the MTU.
Result<void> Lab::update_offload() {
  bool small = !file_.offload;
  for (const HostDescription& host : file_.hosts) small = small || host.down > 0;
  for (size_t a = 0; a < size(); a++)
    for (size_t b = 0; b < size(); b++) {
      const LinkShape shape = relay_->shape(a, b);
      small = small || (a != b && (shape.loss > 0 || shape.rate > 0));
    }
  for (HostNetwork& host : hosts_) MEADOW_TRY_VOID(host.set_offload(!small));
  return {};
}

std::string Lab::with_addresses(std::string text) const {
  for (size_t i = 0; i < size(); i++) {
    const std::string name = "{" + file_.hosts[i].name + "}", address = address_of(i);
    for (size_t at = 0; (at = text.find(name, at)) != std::string::npos; at += address.size())
      text.replace(at, name.size(), address);
  }
  return text;
}

Result<void> Lab::set_link(size_t a, size_t b, const LinkShape& shape) {
  relay_->reshape(a, b, shape);
  return update_offload();
}

Result<void> Lab::set_links(const LinkShape& shape) {
  for (size_t a = 0; a < size(); a++)
    for (size_t b = a + 1; b < size(); b++) relay_->reshape(a, b, shape);
  return update_offload();
}

Result<void> Lab::set_rate(size_t host, double up, double down) {
  MEADOW_CHECK(host < size());
  MEADOW_TRY_VOID(hosts_[host].limit_up(up, file_.mtu));
  file_.hosts[host].up = up;
  file_.hosts[host].down = down;
  relay_->limit_down(host, down);
  return update_offload();
}

}  // namespace meadow::lab
