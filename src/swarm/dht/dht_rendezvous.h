// Rendezvous over a Kademlia DHT (BEP 5), by libtorrent: a swarm finds itself without any bootstrap
// peer of its own. The DHT may be a private one, of peers that run this class, or, by option, the
// public one of BitTorrent. What is stored there is host:port under a hash of the swarm's key: who
// does not know name and secret cannot look it up, but the nodes that happen to store it see which
// addresses belong together. Ports can be opened at a router (UPnP, NAT-PMP) by the same library.
// Thread rule: any thread; one thread of its own hands out what was found. Owns its session.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "swarm/rendezvous.h"

namespace meadow::swarm::dht {

struct DhtOptions {
  std::string listen;              // host:port of this node, a literal IP; port 0: a free one
  std::vector<std::string> nodes;  // host:port of nodes to begin with
  // Also begin with the well-known nodes of BitTorrent's DHT, and keep its rules for addresses and
  // node ids; otherwise any address goes, loopback and private networks too.
  bool public_dht = false;
  std::optional<uint16_t> map_tcp_port;  // ask the router (UPnP, NAT-PMP) to lead this port here
};

// How the router answered, if one was asked.
struct PortMapping {
  bool asked = false;
  std::optional<uint16_t> external_port;
  std::string error;  // of the last attempt; empty: none so far, or it worked
};

class DhtRendezvous final : public Rendezvous {
 public:
  // kInvalidArgument: an address that is none; kUnavailable: cannot listen there. Blocks until the
  // socket is open (5 s at most).
  static Result<std::unique_ptr<DhtRendezvous>> start(const DhtOptions& options,
                                                      const Clock& clock);
  ~DhtRendezvous() override;
  DhtRendezvous(const DhtRendezvous&) = delete;
  DhtRendezvous& operator=(const DhtRendezvous&) = delete;

  // Looks the key up and stores `address` under it: its port, beside the IP that the DHT's nodes
  // see. Empty answers are not handed on.
  void meet(const Digest& key, const std::string& address, Deadline deadline,
            std::function<void(std::vector<std::string>)> found) override;
  // This DHT, if no node of it is known 10 s after the first meeting.
  std::vector<Unreachable> unreachable() const override;
  // True once a node of the DHT has answered.
  bool reached() const override;

  uint16_t port() const;  // of this node, UDP
  size_t nodes() const;   // in its routing table, as far as asked; grows while meetings go on
  PortMapping port_mapping() const;

 private:
  struct Impl;
  explicit DhtRendezvous(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace meadow::swarm::dht
