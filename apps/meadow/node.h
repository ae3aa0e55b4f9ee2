// This process as a member of a swarm: identity, links, membership, and a listening port if it has
// one. What generate, chat, status, serve and bootstrap share.
// Thread rule: start() and the destructor on the main thread, the rest from any. Owns all of it; a
// thread of its own ticks the membership.
#pragma once
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/identity.h"
#include "base/result.h"
#include "meadow/options.h"
#include "rpc/grpc_connector.h"
#include "rpc/grpc_member.h"
#include "rpc/grpc_probe.h"
#include "rpc/grpc_push.h"
#include "rpc/grpc_server.h"
#include "rpc/links.h"
#include "swarm/dht/dht_rendezvous.h"
#include "swarm/invite.h"
#include "swarm/membership.h"

namespace meadow::apps {

// What the command line says about the swarm, invites opened.
struct Entrance {
  swarm::SwarmKey swarm;
  std::vector<swarm::PeerAddress> peers;  // the id, where one was told, is pinned
  Digest fingerprint;                     // of the model, if an invite told
};
// kInvalidArgument: two swarms named, or something that is neither peer nor invite.
Result<Entrance> entrance(const JoinOptions& options);

struct NodeOptions {
  std::string role = "client";  // in the name of the identity file
  Digest fingerprint;           // of the model; zero: of any
  bool measure_rtt = false;
  DType cache_type = DType::kF16;  // servers with another are ignored
};

class Node {
 public:
  // Listens if options.listen says so. With an identity file the members that answered are
  // remembered beside it, and tried again. Contacts nobody yet.
  static Result<std::unique_ptr<Node>> start(const JoinOptions& options, NodeOptions node,
                                             const Clock& clock);
  // start() and wait_connected(), for clients. kInvalidArgument without anybody to join, or if the
  // invite is for another model.
  static Result<std::unique_ptr<Node>> join(const JoinOptions& options, const Clock& clock,
                                            const Digest& fingerprint, DType cache_type,
                                            const CancelToken* cancel);
  ~Node();

  // Blocks until another member has answered. If none of those to join does within a few seconds:
  // kUnavailable (kPermissionDenied for a wrong secret) that names them.
  Result<void> wait_connected(const CancelToken* cancel) const;

  const Identity& identity() const { return identity_; }
  const swarm::SwarmKey& swarm_key() const { return entrance_.swarm; }
  swarm::Membership& membership() { return *membership_; }
  const swarm::Membership& membership() const { return *membership_; }
  swarm::SpanConnector& connector() { return *connector_; }
  swarm::PushPort& push() { return *push_; }
  swarm::ProbePort& probe() { return *probe_; }
  const swarm::dht::DhtRendezvous* dht() const { return dht_.get(); }  // null: without
  rpc::GrpcServer* server() { return server_.get(); }                  // null: does not listen
  // host:port that others dial; empty without a listening port.
  const std::string& address() const { return address_; }
  // All that a friend needs, this peer first.
  std::string invite(const Digest& fingerprint) const;
  // "ignored 1a2b3c4d at host:port: model …", a line each; empty if nobody is ignored.
  std::string ignored_text() const;

 private:
  Node(Identity identity, Entrance entrance, const Clock& clock);
  // How many must be given up before nobody is left to join.
  size_t places_to_join() const { return entrance_.peers.size() + (dht_ ? 1 : 0); }
  Result<void> start_dht(const JoinOptions& options);
  Result<void> listen(const JoinOptions& options, const rpc::RpcOptions& rpc);
  void tick_until_stopped(std::stop_token stop);
  void remember();
  Digest swarm_digest() const { return entrance_.swarm.rendezvous(); }

  Identity identity_;
  Entrance entrance_;
  const Clock& clock_;
  std::string address_;
  std::unique_ptr<rpc::Links> links_;
  std::unique_ptr<rpc::GrpcMember> member_port_;
  std::unique_ptr<rpc::GrpcConnector> connector_;
  std::unique_ptr<rpc::GrpcPush> push_;
  std::unique_ptr<rpc::GrpcProbe> probe_;
  std::unique_ptr<swarm::BootstrapRendezvous> bootstraps_;
  std::unique_ptr<swarm::dht::DhtRendezvous> dht_;  // null: not asked for
  std::unique_ptr<swarm::CombinedRendezvous> rendezvous_;
  std::unique_ptr<swarm::SequenceStore> sequence_;
  std::unique_ptr<swarm::Membership> membership_;
  std::unique_ptr<rpc::GrpcServer> server_;
  std::string memory_file_;              // of remembered peers; empty: forgets them
  std::vector<std::string> remembered_;  // of an earlier run
  std::jthread ticker_;
};

}  // namespace meadow::apps
