#include "meadow/node.h"

#include <condition_variable>
#include <filesystem>
#include <mutex>

#include "kernels/attention.h"
#include "meadow/terminal.h"
#include "meadow/version.h"
#include "swarm/address.h"
#include "swarm/peer_memory.h"

namespace meadow::apps {
namespace {

constexpr Duration kTick = 100ms;
constexpr Duration kRememberFirst = 5s;  // after the start, then with this period
constexpr Duration kRememberPeriod = 60s;
constexpr Duration kFirstContactDht = 12s;
constexpr Duration kFirstContact = 4500ms;  // to be said within five seconds

Result<void> make_parent(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error)
    return fail(Code::kPermissionDenied, "cannot make the folder {}: {}", folder.string(),
                error.message());
  return {};
}

// The address to be dialled by others: --announce, or what was bound if that can be dialled.
Result<std::string> dialable(const JoinOptions& options, const std::string& bound, int port) {
  if (!options.announce.empty()) {
    MEADOW_TRY(auto announced, swarm::parse_address(options.announce));
    if (announced.port == 0) announced.port = static_cast<uint16_t>(port);
    return swarm::format(announced);
  }
  if (auto address = swarm::parse_dialable(bound); !address)
    return fail(Code::kInvalidArgument,
                "--listen {} takes connections on every interface, but others need an address to "
                "dial: add --announce HOST:PORT",
                options.listen);
  return bound;
}

// Port 0: another one each time, so the peer behind it is another one, too.
bool any_port(const std::string& listen) {
  const auto address = swarm::parse_address(listen);
  return address && address->port == 0;
}

}  // namespace

Node::Node(Identity identity, Entrance entrance, const Clock& clock)
    : identity_(std::move(identity)), entrance_(std::move(entrance)), clock_(clock) {}

Result<Entrance> entrance(const JoinOptions& options) {
  Entrance entrance;
  bool named = !options.swarm.empty();
  MEADOW_TRY(entrance.swarm, swarm::parse_swarm(named ? options.swarm : kDefaultSwarm));
  for (const std::string& text : options.join) {
    if (!swarm::looks_like_invite(text)) {
      MEADOW_TRY(const auto peer, swarm::parse_peer(text));
      entrance.peers.push_back(peer);
      continue;
    }
    MEADOW_TRY(const auto invite, swarm::parse_invite(text));
    if (named &&
        (invite.swarm.name != entrance.swarm.name || invite.swarm.secret != entrance.swarm.secret))
      return fail(Code::kInvalidArgument,
                  "the invite is for swarm {}, which differs in name or secret from the one given "
                  "before it: leave --swarm out, an invite brings it",
                  invite.swarm.name);
    entrance.swarm = invite.swarm;
    named = true;
    entrance.peers.insert(entrance.peers.end(), invite.peers.begin(), invite.peers.end());
    if (!invite.fingerprint.is_zero()) entrance.fingerprint = invite.fingerprint;
  }
  return entrance;
}

Result<void> Node::listen(const JoinOptions& options, const rpc::RpcOptions& rpc) {
  rpc::GrpcServerOptions server;
  server.listen = options.listen;
  MEADOW_TRY(server_, rpc::GrpcServer::start(rpc, server, *membership_, clock_));
  MEADOW_TRY(address_, dialable(options, server_->address(), server_->port()));
  membership_->set_address(address_);
  return {};
}

Result<void> Node::start_dht(const JoinOptions& options) {
  if (!options.uses_dht()) return {};
  swarm::dht::DhtOptions dht;
  dht.listen = options.dht.empty() ? "0.0.0.0:0" : options.dht;
  dht.nodes = options.dht_nodes;
  dht.public_dht = options.dht_public;
  if (options.map_ports) {
    MEADOW_TRY(const auto listen, swarm::parse_address(options.listen));
    if (listen.port == 0)
      return fail(Code::kInvalidArgument,
                  "--map-port needs a port that stays: give --listen one other than 0");
    dht.map_tcp_port = listen.port;
  }
  MEADOW_TRY(dht_, swarm::dht::DhtRendezvous::start(dht, clock_));
  return {};
}

Result<std::unique_ptr<Node>> Node::start(const JoinOptions& options, NodeOptions node_options,
                                          const Clock& clock) {
  MEADOW_TRY(Entrance in, entrance(options));
  // Before a key is made for an address that is none.
  for (const std::string& address : {options.listen, options.announce})
    if (!address.empty()) MEADOW_TRY_VOID(swarm::parse_address(address));
  std::string key_file = options.identity;
  if (key_file.empty() && !options.listen.empty() && !any_port(options.listen))
    key_file = identity_path(node_options.role, options.listen);
  Identity identity = Identity::generate();
  if (!key_file.empty()) {
    MEADOW_TRY_VOID(make_parent(key_file));
    MEADOW_TRY(identity, Identity::load_or_create(key_file));
  }

  std::unique_ptr<Node> node(new Node(std::move(identity), std::move(in), clock));
  const rpc::RpcOptions rpc{node->identity_, node->entrance_.swarm, options.insecure};
  node->links_ = std::make_unique<rpc::Links>(rpc, clock);
  rpc::GrpcMember::Pins pins;
  std::vector<std::string> addresses;
  for (const swarm::PeerAddress& peer : node->entrance_.peers) {
    addresses.push_back(peer.address);
    if (!peer.id.is_zero()) pins[peer.address] = peer.id;
  }
  node->member_port_ = std::make_unique<rpc::GrpcMember>(*node->links_, std::move(pins));
  node->connector_ = std::make_unique<rpc::GrpcConnector>(*node->links_);
  node->push_ = std::make_unique<rpc::GrpcPush>(*node->links_);
  node->probe_ = std::make_unique<rpc::GrpcProbe>(*node->links_);
  node->bootstraps_ =
      std::make_unique<swarm::BootstrapRendezvous>(*node->member_port_, std::move(addresses));
  MEADOW_TRY_VOID(node->start_dht(options));
  std::vector<swarm::Rendezvous*> ways = {node->bootstraps_.get()};
  if (node->dht_) ways.push_back(node->dht_.get());
  node->rendezvous_ = std::make_unique<swarm::CombinedRendezvous>(std::move(ways));
  if (key_file.empty()) {
    node->sequence_ = std::make_unique<swarm::MemorySequenceStore>();
  } else {
    MEADOW_TRY(node->sequence_, swarm::FileSequenceStore::open(key_file + ".sequence"));
  }

  if (!key_file.empty()) {
    node->memory_file_ = key_file + ".peers";
    // a file of another swarm, or a damaged one, is of no use and will be replaced
    node->remembered_ = swarm::load_remembered(node->memory_file_, node->swarm_digest())
                            .value_or(std::vector<std::string>{});
  }
  swarm::MembershipOptions membership;
  membership.remembered = node->remembered_;
  membership.swarm = node->entrance_.swarm;
  membership.fingerprint = node_options.fingerprint;
  membership.numerics = kernels::numerics_id(node_options.cache_type);
  membership.version = kVersion;
  membership.measure_rtt = node_options.measure_rtt;
  node->membership_ = std::make_unique<swarm::Membership>(
      membership, node->identity_, *node->member_port_, *node->rendezvous_, *node->sequence_, clock,
      Rng(random_seed()));
  // The port is known once it is bound, and what answers on it must be there before.
  if (!options.listen.empty()) MEADOW_TRY_VOID(node->listen(options, rpc));
  node->ticker_ =
      std::jthread([raw = node.get()](std::stop_token stop) { raw->tick_until_stopped(stop); });
  return node;
}

Result<std::unique_ptr<Node>> Node::join(const JoinOptions& options, const Clock& clock,
                                         const Digest& fingerprint, DType cache_type,
                                         const CancelToken* cancel) {
  MEADOW_TRY(const Entrance in, entrance(options));
  if (in.peers.empty() && !options.uses_dht() && options.identity.empty())
    return fail(Code::kInvalidArgument,
                "nobody to join: give an invite, --dht-node or --join HOST:PORT (or --local to run "
                "the whole "
                "model here)");
  if (!fingerprint.is_zero() && !in.fingerprint.is_zero() && fingerprint != in.fingerprint)
    return fail(Code::kInvalidArgument,
                "the invite is for the model with fingerprint {}, the file given has {}: use the "
                "same file as the servers",
                hex(in.fingerprint, 4), hex(fingerprint, 4));
  MEADOW_TRY(auto node, Node::start(options, {"client", fingerprint, true, cache_type}, clock));
  MEADOW_TRY_VOID(node->wait_connected(cancel));
  return node;
}

Node::~Node() {
  if (ticker_.joinable()) {
    ticker_.request_stop();
    ticker_.join();
  }
  remember();
  // Nobody calls in once the port is shut; nobody calls back once the links are gone.
  if (server_) server_->shutdown(200ms);
  connector_.reset();
  links_.reset();
}

void Node::tick_until_stopped(std::stop_token stop) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  TimePoint remember_at = clock_.now() + kRememberFirst;
  while (!stop.stop_requested()) {
    membership_->tick();
    if (clock_.now() >= remember_at) {
      remember_at = clock_.now() + kRememberPeriod;
      remember();
    }
    wake.wait_for(lock, stop, kTick, [] { return false; });
  }
}

void Node::remember() {
  if (memory_file_.empty() || !membership_) return;
  const auto peers = membership_->proven_addresses();
  // those of earlier stay, as long as nobody else answers; a file that cannot be written costs
  // nothing but the memory
  if (!peers.empty()) (void)swarm::store_remembered(memory_file_, peers, swarm_digest());
}

Result<void> Node::wait_connected(const CancelToken* cancel) const {
  const Deadline deadline = Deadline::after(clock_, dht_ ? kFirstContactDht : kFirstContact);
  std::mutex mutex;
  std::condition_variable nothing;
  std::unique_lock lock(mutex);
  // that a node of the DHT answers does not say that a member is there
  while (!membership_->connected() && !bootstraps_->reached()) {
    if (cancel && cancel->cancelled()) return fail(Code::kCancelled, "joining was interrupted");
    const auto dead = membership_->bootstrap_unreachable();
    const bool late = deadline.passed(clock_.now());
    if (late || (dead.size() >= places_to_join() && remembered_.empty())) {
      std::string who;
      Code code = Code::kUnavailable;
      for (const auto& peer : dead) {
        who += fmt::format("\n  {}: {}", peer.address, printable(peer.error.text()));
        if (peer.error.code == Code::kPermissionDenied) code = Code::kPermissionDenied;
      }
      if (dead.empty() && dht_)
        who += fmt::format("\n  DHT: nobody of this swarm found ({} nodes known)", dht_->nodes());
      if (dead.empty())
        for (const auto& peer : entrance_.peers)
          who += fmt::format("\n  {}: no answer", peer.address);
      return fail(code, "none of the peers to join answers:{}", who);
    }
    nothing.wait_for(lock, 20ms);
  }
  return {};
}

std::string Node::invite(const Digest& fingerprint) const {
  swarm::Invite invite;
  invite.swarm = entrance_.swarm;
  invite.fingerprint = fingerprint;
  if (!address_.empty()) invite.peers.push_back({identity_.id(), address_});
  for (const swarm::PeerAddress& peer : entrance_.peers) {
    if (invite.peers.size() >= 4) break;
    if (peer.address != address_) invite.peers.push_back(peer);
  }
  return invite.text();
}

std::string Node::ignored_text() const {
  std::string out;
  for (const auto& server : membership_->ignored()) {
    if (!out.empty()) out += '\n';
    out += fmt::format("ignored {} at {}: {}", short_id(server.peer.id), server.peer.address,
                       printable(server.reason));
  }
  return out;
}

}  // namespace meadow::apps
