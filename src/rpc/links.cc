#include "rpc/links.h"

#include <algorithm>
#include <thread>

#include "base/rng.h"
#include "rpc/link_core.h"
#include "rpc/status.h"

namespace meadow::rpc {
namespace {

// gRPC 1.51 ends its callback threads with the last channel of the process, by joining them: a
// channel must not be destroyed on one of them. Every link goes to this thread to die.
class Reaper {
 public:
  static Reaper& instance() {
    static Reaper* reaper = new Reaper;  // for the life of the process
    return *reaper;
  }
  void take(Link* link) {
    {
      std::lock_guard lock(mutex_);
      links_.emplace_back(link);
    }
    arrived_.notify_one();
  }

 private:
  Reaper() {
    std::thread([this] { run(); }).detach();
  }
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      arrived_.wait(lock, [this] { return !links_.empty(); });
      std::vector<std::unique_ptr<Link>> dead;
      dead.swap(links_);
      lock.unlock();
      dead.clear();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<std::unique_ptr<Link>> links_;
};

std::shared_ptr<Link> make_link(const std::string& address, const PeerId& expected,
                                const RpcOptions& options) {
  Reaper& reaper = Reaper::instance();
  return {new Link(address, expected, options), [&reaper](Link* link) { reaper.take(link); }};
}

// Characters of an address that a URI's path may not hold: brackets of IPv6, the zone's percent.
std::string dial_target(const std::string& address) {
  std::string out = "dns:///";
  for (const char c : address) {
    if (c == '[' || c == ']' || c == '%')
      out += c == '[' ? "%5B" : c == ']' ? "%5D" : "%25";
    else
      out += c;
  }
  return out;
}

grpc::ChannelArguments channel_arguments() {
  grpc::ChannelArguments args;
  args.SetMaxReceiveMessageSize(kMaxMessageBytes);
  args.SetMaxSendMessageSize(kMaxMessageBytes);
  // A peer that vanished without a reset is noticed while calls stand; idle links send nothing.
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 1000);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 2000);
  args.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 0);
  args.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // The second number is also how long one attempt to connect may take.
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 300);
  args.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);  // what is sent twice is ours to decide
  args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  args.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a new channel is a new connection
  return args;
}

Result<void> check_hello(const Link& link, const pb::HelloReply& reply, bool insecure,
                         const grpc::ClientContext& context, PublicKey* server_key, Nonce* nonce) {
  if (reply.protocol() != kProtocol)
    return fail(Code::kUnsupported, "{} speaks protocol {}, this program {}; use the same version",
                link.address(), reply.protocol(), kProtocol);
  MEADOW_TRY(*server_key, fixed<PublicKey>(reply.key(), "hello.key"));
  MEADOW_TRY(*nonce, fixed<Nonce>(reply.nonce(), "hello.nonce"));
  if (!insecure) {
    const auto auth = context.auth_context();
    if (auth == nullptr) return fail(Code::kPermissionDenied, "{}: no secure link", link.address());
    MEADOW_TRY(const PublicKey shown, key_of(*auth));
    if (shown != *server_key)
      return fail(Code::kPermissionDenied, "{}: names another key than its certificate's",
                  link.address());
  }
  if (!link.expected().is_zero() && peer_id_of(*server_key) != link.expected())
    return fail(Code::kPermissionDenied, "{}: expected peer {}, but {} answered", link.address(),
                short_id(link.expected()), short_id(peer_id_of(*server_key)));
  return {};
}

}  // namespace

Link::Link(const std::string& address, PeerId expected, const RpcOptions& options)
    : address_(address), expected_(expected), key_check_(std::make_shared<KeyCheck>(expected)) {
  init_grpc();
  const auto credentials = options.insecure ? grpc::InsecureChannelCredentials()
                                            : channel_credentials(options.identity, key_check_);
  channel_ = grpc::CreateCustomChannel(dial_target(address), credentials, channel_arguments());
  span_ = pb::Span::NewStub(channel_);
  member_ = pb::Member::NewStub(channel_);
}

Error Link::error_of(const grpc::Status& status) const {
  const std::string where =
      expected_.is_zero() ? address_ : fmt::format("{} at {}", short_id(expected_), address_);
  if (status.error_code() == grpc::UNAVAILABLE)
    if (auto refusal = key_check_->refusal()) return refusal->within(where);
  return from_status(status).within(where);
}

std::shared_ptr<Link> Links::Core::link(const std::string& address, const PeerId& expected) {
  const Key key{address, expected};
  std::shared_ptr<Link> evicted;  // destroyed after the lock
  std::lock_guard lock(mutex_);
  auto it = links_.find(key);
  if (it == links_.end()) {
    if (links_.size() >= kMaxLinks) {
      const auto oldest = std::min_element(
          links_.begin(), links_.end(),
          [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
      evicted = std::move(oldest->second.link);
      links_.erase(oldest);
    }
    it = links_.emplace(key, Entry{make_link(address, expected, options_)}).first;
  }
  it->second.used = ++uses_;
  return it->second.link;
}

void Links::Core::drop(const std::shared_ptr<Link>& link) {
  std::lock_guard lock(mutex_);
  const auto it = links_.find({link->address(), link->expected()});
  if (it != links_.end() && it->second.link == link) links_.erase(it);
}

bool Links::Core::enter(grpc::ClientContext* context) {
  std::lock_guard lock(mutex_);
  if (shut_down_) return false;
  in_flight_.insert(context);
  return true;
}

Links::Core::Ending Links::Core::leave(grpc::ClientContext* context) {
  {
    std::lock_guard lock(mutex_);
    in_flight_.erase(context);
    endings_++;
  }
  return Ending(shared_from_this());
}

void Links::Core::shutdown() {
  std::map<Key, Entry> links;
  std::unique_lock lock(mutex_);
  shut_down_ = true;
  for (grpc::ClientContext* context : in_flight_) context->TryCancel();
  idle_.wait(lock, [this] { return in_flight_.empty() && endings_ == 0; });
  links.swap(links_);
}

void Links::Core::prepare(grpc::ClientContext& context, Deadline deadline) const {
  const Duration left =
      std::clamp<Duration>(deadline.at() - clock_.now(), Duration(0), Duration(24h));
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::duration_cast<std::chrono::system_clock::duration>(left));
  context.set_wait_for_ready(false);
  if (options_.insecure)
    context.AddMetadata(kInsecureKeyMetadata, to_hex(options_.identity.public_key().bytes));
}

void Links::Core::handshake(std::shared_ptr<Link> link, Deadline deadline,
                            std::function<void(Result<void>)> done) {
  {
    std::lock_guard lock(link->handshake_mutex);
    if (link->handshaking && link->handshake_deadline.at() <= deadline.at()) {
      link->waiters.push_back({deadline, std::move(done)});
      return;
    }
    if (!link->handshaking) {
      link->handshaking = true;
      link->handshake_deadline = deadline;
      done = [this, link, done = std::move(done)](Result<void> result) {
        handshake_ended(link, result);
        done(std::move(result));
      };
    }
  }
  hello(std::move(link), deadline, std::move(done));
}

// Those who waited share the result, except one that came of the first caller's impatience.
void Links::Core::handshake_ended(const std::shared_ptr<Link>& link, const Result<void>& result) {
  std::vector<Link::Waiter> waiters;
  {
    std::lock_guard lock(link->handshake_mutex);
    link->handshaking = false;
    waiters.swap(link->waiters);
  }
  const bool shared = result || result.error().code != Code::kDeadlineExceeded;
  for (Link::Waiter& waiter : waiters) {
    if (shared)
      waiter.done(result);
    else
      handshake(link, waiter.deadline, std::move(waiter.done));
  }
}

void Links::Core::hello(std::shared_ptr<Link> link, Deadline deadline,
                        std::function<void(Result<void>)> done) {
  Handshake handshake;
  handshake.client_key = options_.identity.public_key();
  random_bytes(handshake.client_nonce.bytes);
  auto request = std::make_shared<pb::HelloRequest>();
  request->set_protocol(kProtocol);
  request->set_nonce(wire_bytes(handshake.client_nonce));
  raw_call<pb::HelloRequest, pb::HelloReply>(
      link,
      [](Link& l, grpc::ClientContext* context, const pb::HelloRequest* hello,
         pb::HelloReply* reply, std::function<void(grpc::Status)> end) {
        l.member().async()->Hello(context, hello, reply, std::move(end));
      },
      std::move(request), deadline,
      [this, link, handshake, deadline, done = std::move(done)](
          grpc::Status status, pb::HelloReply& reply, const grpc::ClientContext& context) mutable {
        if (!status.ok()) {
          if (status.error_code() == grpc::UNAVAILABLE) drop(link);
          return done(fail(link->error_of(status)));
        }
        if (auto ok = check_hello(*link, reply, options_.insecure, context, &handshake.server_key,
                                  &handshake.server_nonce);
            !ok)
          return done(fail(std::move(ok).error()));
        prove(link, handshake, deadline, std::move(done));
      });
}

void Links::Core::prove(std::shared_ptr<Link> link, const Handshake& handshake, Deadline deadline,
                        std::function<void(Result<void>)> done) {
  auto request = std::make_shared<pb::ProveRequest>();
  request->set_nonce(wire_bytes(handshake.server_nonce));
  request->set_proof(wire_bytes(admission_proof(admission_key_, Role::kClient, handshake)));
  raw_call<pb::ProveRequest, pb::ProveReply>(
      link,
      [](Link& l, grpc::ClientContext* context, const pb::ProveRequest* prove,
         pb::ProveReply* reply, std::function<void(grpc::Status)> end) {
        l.member().async()->Prove(context, prove, reply, std::move(end));
      },
      std::move(request), deadline,
      [this, link, handshake, done = std::move(done)](grpc::Status status, pb::ProveReply& reply,
                                                      const grpc::ClientContext&) {
        if (!status.ok()) {
          if (status.error_code() == grpc::UNAVAILABLE) drop(link);
          return done(fail(link->error_of(status)));
        }
        const Digest expected = admission_proof(admission_key_, Role::kServer, handshake);
        if (!equal_constant_time(expected.bytes, as_bytes(reply.proof())))
          return done(fail(Code::kPermissionDenied,
                           "{}: could not prove this swarm's secret: another swarm answers there",
                           link->address()));
        link->admitted = true;
        done({});
      });
}

Links::Links(RpcOptions options, const Clock& clock)
    : core_(std::make_shared<Core>(std::move(options), clock)) {}

Links::~Links() { core_->shutdown(); }

}  // namespace meadow::rpc
