// Inside of Links: one Link per (address, key), unary calls that run the admission handshake first
// where it is wanting, and the register of calls in flight.
// Thread rule: any thread. Callbacks run on gRPC threads, never inside the call that starts them.
#pragma once
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <set>

#include "meadow/v1/member.grpc.pb.h"
#include "meadow/v1/session.grpc.pb.h"
#include "rpc/admission.h"
#include "rpc/convert.h"
#include "rpc/links.h"
#include "rpc/tls.h"

namespace meadow::rpc {

// A channel to one address, pinned to one peer (or to none, for membership). Whoever holds a
// context of its calls holds the link, too, and longer: the channel must not end on a gRPC thread.
class Link {
 public:
  Link(const std::string& address, PeerId expected, const RpcOptions& options);

  const std::string& address() const { return address_; }
  const PeerId& expected() const { return expected_; }
  pb::Span::Stub& span() { return *span_; }
  pb::Member::Stub& member() { return *member_; }

  // The handshake under way, which later callers wait for unless their deadline is earlier.
  struct Waiter {
    Deadline deadline;
    std::function<void(Result<void>)> done;
  };
  std::mutex handshake_mutex;  // guards the next three
  bool handshaking = false;
  Deadline handshake_deadline;
  std::vector<Waiter> waiters;

  // True once both ends have proved the secret to each other on this link.
  std::atomic<bool> admitted{false};
  // A status of this link as our error: names the peer, and says what the key check found where
  // gRPC only says "unavailable".
  Error error_of(const grpc::Status& status) const;

 private:
  const std::string address_;
  const PeerId expected_;
  std::shared_ptr<KeyCheck> key_check_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<pb::Span::Stub> span_;
  std::unique_ptr<pb::Member::Stub> member_;
};

class Links::Core : public std::enable_shared_from_this<Links::Core> {
 public:
  Core(RpcOptions options, const Clock& clock)
      : options_(std::move(options)), admission_key_(options_.swarm.admission()), clock_(clock) {}

  const Clock& clock() const { return clock_; }

  // The link to this address and key, made if there is none.
  std::shared_ptr<Link> link(const std::string& address, const PeerId& expected);
  // Drops exactly this link, after it failed.
  void drop(const std::shared_ptr<Link>& link);
  // Cancels what is in flight, refuses more, waits for the callbacks.
  void shutdown();

  // Deadline and, without TLS, our key.
  void prepare(grpc::ClientContext& context, Deadline deadline) const;

  // A call in flight: cancelled by shutdown(), which waits for its end. False: shut down already.
  bool enter(grpc::ClientContext* context);
  // The call is over and no longer cancelled, but what it holds, its channel perhaps, may take a
  // moment to go: shutdown() waits until the result, too, is destroyed. Destroy it last.
  class Ending;
  [[nodiscard]] Ending leave(grpc::ClientContext* context);

  // Runs `call` (Stub&, context, request, reply, done) on the link, after the handshake if the
  // link is not admitted; if the other end has forgotten us, once more after a second handshake.
  template <class Request, class Reply>
  using Method = void (*)(Link&, grpc::ClientContext*, const Request*, Reply*,
                          std::function<void(grpc::Status)>);
  template <class Request, class Reply>
  void call(std::shared_ptr<Link> link, Method<Request, Reply> method,
            std::shared_ptr<const Request> request, Deadline deadline,
            std::function<void(Result<Reply>)> done, bool may_retry = true);

  // Both ends prove the secret. `done` with kPermissionDenied: one could not.
  void handshake(std::shared_ptr<Link> link, Deadline deadline,
                 std::function<void(Result<void>)> done);

 private:
  template <class Request, class Reply>
  void raw_call(std::shared_ptr<Link> link, Method<Request, Reply> method,
                std::shared_ptr<const Request> request, Deadline deadline,
                std::function<void(grpc::Status, Reply&, const grpc::ClientContext&)> done);
  void hello(std::shared_ptr<Link> link, Deadline deadline, std::function<void(Result<void>)> done);
  void handshake_ended(const std::shared_ptr<Link>& link, const Result<void>& result);
  void prove(std::shared_ptr<Link> link, const Handshake& handshake, Deadline deadline,
             std::function<void(Result<void>)> done);

  using Key = std::pair<std::string, PeerId>;
  struct Entry {
    std::shared_ptr<Link> link;
    uint64_t used = 0;  // by a counter
  };

  const RpcOptions options_;
  const Digest admission_key_;
  const Clock& clock_;
  std::mutex mutex_;
  std::condition_variable idle_;
  bool shut_down_ = false;
  std::set<grpc::ClientContext*> in_flight_;
  size_t endings_ = 0;
  std::map<Key, Entry> links_;
  uint64_t uses_ = 0;
};

class Links::Core::Ending {
 public:
  explicit Ending(std::shared_ptr<Core> core) : core_(std::move(core)) {}
  ~Ending() {
    std::lock_guard lock(core_->mutex_);
    core_->endings_--;
    core_->idle_.notify_all();
  }
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;

 private:
  const std::shared_ptr<Core> core_;
};

template <class Request, class Reply>
void Links::Core::raw_call(
    std::shared_ptr<Link> link, Method<Request, Reply> method,
    std::shared_ptr<const Request> request, Deadline deadline,
    std::function<void(grpc::Status, Reply&, const grpc::ClientContext&)> done) {
  struct State {
    std::shared_ptr<Link> link;  // first, so that it outlives the context, which holds its channel
    grpc::ClientContext context;
    Reply reply;
    std::function<void(grpc::Status, Reply&, const grpc::ClientContext&)> done;
  };
  auto state = std::make_shared<State>();
  state->link = link;
  state->done = std::move(done);
  prepare(state->context, deadline);
  if (!enter(&state->context))
    return state->done({grpc::CANCELLED, "this peer is shutting down"}, state->reply,
                       state->context);
  method(*link, &state->context, request.get(), &state->reply,
         [core = shared_from_this(), state, request](grpc::Status status) mutable {
           state->done(std::move(status), state->reply, state->context);
           const Ending ending = core->leave(&state->context);
           state.reset();
           request.reset();
         });
}

template <class Request, class Reply>
void Links::Core::call(std::shared_ptr<Link> link, Method<Request, Reply> method,
                       std::shared_ptr<const Request> request, Deadline deadline,
                       std::function<void(Result<Reply>)> done, bool may_retry) {
  if (!link->admitted) {
    handshake(link, deadline,
              [core = shared_from_this(), link, method, request, deadline, may_retry,
               done = std::move(done)](Result<void> admitted) mutable {
                if (!admitted) return done(fail(std::move(admitted).error()));
                core->call<Request, Reply>(link, method, request, deadline, std::move(done),
                                           may_retry);
              });
    return;
  }
  raw_call<Request, Reply>(
      link, method, request, deadline,
      [core = this, link, method, request, deadline, may_retry, done = std::move(done)](
          grpc::Status status, Reply& reply, const grpc::ClientContext&) mutable {
        if (status.ok()) return done(std::move(reply));
        if (status.error_code() == grpc::UNAUTHENTICATED && may_retry) {
          link->admitted = false;
          return core->call<Request, Reply>(link, method, request, deadline, std::move(done),
                                            false);
        }
        if (status.error_code() == grpc::UNAVAILABLE) core->drop(link);
        done(fail(link->error_of(status)));
      });
}

}  // namespace meadow::rpc
