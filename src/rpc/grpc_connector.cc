#include "rpc/grpc_connector.h"

#include <deque>

#include "rpc/link_core.h"

namespace meadow::rpc {
namespace {

constexpr Duration kHandshakeTimeout = 10s;
constexpr uint64_t kFrameBytes = 5;  // gRPC's own, before each message

class Attempt;

// A stream as its session sees it. Made of one call, or of two where the server had forgotten that
// we were admitted. Until the server's first answer only the OpenRequest is sent, so that a second
// call can take the place of the first.
// Lock: mutex_ guards everything below it, and that part of Attempt which says so. Events are
// posted under it, so that none follows detach(). Operations of gRPC start outside it.
class Stream final : public std::enable_shared_from_this<Stream> {
 public:
  Stream(std::shared_ptr<Links::Core> owner, std::shared_ptr<Link> to, swarm::OpenRequest request,
         swarm::EventInbox& inbox, uint64_t number)
      : core(std::move(owner)), link(std::move(to)), number_(number), inbox_(&inbox) {
    to_proto(swarm::ClientMessage(std::move(request)), &open_);
  }

  void begin();
  void send(swarm::ClientMessage message);
  void detach();

  const std::shared_ptr<Links::Core> core;
  const std::shared_ptr<Link> link;
  std::atomic<uint64_t> bytes_sent{0}, bytes_received{0};

 private:
  friend class Attempt;
  void start_attempt();
  // Under the lock; at most one StreamClosed.
  void post_end(Error error) {
    if (inbox_ != nullptr) inbox_->post({number_, swarm::StreamClosed{std::move(error)}});
    inbox_ = nullptr;
    queue_.clear();
  }
  void end(Error error) {
    std::lock_guard lock(mutex_);
    post_end(std::move(error));
  }

  const uint64_t number_;
  pb::ClientMessage open_;
  std::mutex mutex_;
  swarm::EventInbox* inbox_;  // null once nothing more may be posted
  std::deque<pb::ClientMessage> queue_;
  uint64_t queued_bytes_ = 0;
  bool confirmed_ = false;  // the server has answered
  bool retried_ = false;
  std::shared_ptr<Attempt> attempt_;
};

// One call of gRPC. Keeps itself alive from start() to OnDone. At most one write is under way.
class Attempt final : public grpc::ClientBidiReactor<pb::ClientMessage, pb::ServerMessage> {
 public:
  explicit Attempt(std::shared_ptr<Stream> stream) : stream_(std::move(stream)) {}

  // False: shut down, nothing was started.
  bool start(std::shared_ptr<Attempt> self) {
    stream_->core->prepare(context_, Deadline());
    if (!stream_->core->enter(&context_)) return false;
    self_ = std::move(self);
    stream_->link->span().async()->Session(&context_, this);
    AddHold();  // writes start outside reactions, too; let_go() ends that
    StartRead(&incoming_);
    outgoing_ = stream_->open_;
    writing_ = true;
    StartWrite(&outgoing_);
    StartCall();
    return true;
  }

  void cancel() { context_.TryCancel(); }

  // Starts the next write if there is one and none is under way. Unlocks.
  void pump(std::unique_lock<std::mutex>& lock) {
    if (writing_ || broken_ || !stream_->confirmed_ || stream_->queue_.empty())
      return lock.unlock();
    writing_ = true;
    outgoing_ = std::move(stream_->queue_.front());
    stream_->queue_.pop_front();
    stream_->queued_bytes_ -= outgoing_.ByteSizeLong();
    lock.unlock();
    StartWrite(&outgoing_);
  }

 private:
  void OnWriteDone(bool ok) override {
    if (ok) stream_->bytes_sent += outgoing_.ByteSizeLong() + kFrameBytes;
    std::unique_lock lock(stream_->mutex_);
    writing_ = false;
    broken_ |= !ok;
    if (read_ended_) return let_go(lock);
    pump(lock);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      std::unique_lock lock(stream_->mutex_);
      read_ended_ = broken_ = true;
      return let_go(lock);
    }
    stream_->bytes_received += incoming_.ByteSizeLong() + kFrameBytes;
    Result<swarm::ServerMessage> message = from_proto(incoming_);
    incoming_.Clear();
    deliver(std::move(message));
    StartRead(&incoming_);
  }

  void deliver(Result<swarm::ServerMessage> message) {
    std::unique_lock lock(stream_->mutex_);
    if (!message) {
      stream_->post_end(
          {Code::kCorrupt, fmt::format("{} sent a malformed message: {}", stream_->link->address(),
                                       message.error().message)});
      lock.unlock();
      return cancel();
    }
    if (stream_->inbox_ != nullptr) stream_->inbox_->post({stream_->number_, std::move(*message)});
    stream_->confirmed_ = true;
    pump(lock);
  }

  // Once reading has ended and no write is under way, none will start: OnDone may come. Unlocks.
  void let_go(std::unique_lock<std::mutex>& lock) {
    const bool now = read_ended_ && !writing_ && !let_go_;
    let_go_ |= now;
    lock.unlock();
    if (now) RemoveHold();
  }

  void OnDone(const grpc::Status& status) override {
    if (status.error_code() == grpc::UNAVAILABLE) stream_->core->drop(stream_->link);
    bool again = false;
    {
      std::lock_guard lock(stream_->mutex_);
      stream_->attempt_.reset();
      if (status.error_code() == grpc::UNAUTHENTICATED && !stream_->confirmed_)
        again = !std::exchange(stream_->retried_, true) && stream_->inbox_ != nullptr;
    }
    if (again) {  // a server that started anew knows nobody: prove again
      stream_->link->admitted = false;
      stream_->begin();
    } else if (status.ok()) {
      stream_->end(
          {Code::kUnavailable, fmt::format("{} ended the stream", stream_->link->address())});
    } else {
      stream_->end(stream_->link->error_of(status));
    }
    const auto ending = stream_->core->leave(&context_);
    const std::shared_ptr<Attempt> last = std::move(self_);  // goes before `ending`
  }

  const std::shared_ptr<Stream> stream_;  // with the link: before, so longer than, the context
  std::shared_ptr<Attempt> self_;
  grpc::ClientContext context_;
  pb::ServerMessage incoming_;
  pb::ClientMessage outgoing_;
  // Guarded by the stream's lock:
  bool writing_ = false, read_ended_ = false, let_go_ = false;
  bool broken_ = false;  // nothing can be written any more
};

void Stream::begin() {
  if (link->admitted) return start_attempt();
  core->handshake(link, Deadline::after(core->clock(), kHandshakeTimeout),
                  [self = shared_from_this()](Result<void> admitted) {
                    if (!admitted) return self->end(std::move(admitted).error());
                    self->start_attempt();
                  });
}

void Stream::start_attempt() {
  auto attempt = std::make_shared<Attempt>(shared_from_this());
  {
    std::lock_guard lock(mutex_);
    if (inbox_ == nullptr) return;
    attempt_ = attempt;
  }
  // detach() may cancel from here on: a context remembers that until its call starts.
  if (attempt->start(attempt)) return;
  std::lock_guard lock(mutex_);
  attempt_.reset();
  post_end({Code::kCancelled, "this peer is shutting down"});
}

void Stream::send(swarm::ClientMessage message) {
  pb::ClientMessage wire;
  to_proto(std::move(message), &wire);
  const uint64_t bytes = wire.ByteSizeLong();
  std::unique_lock lock(mutex_);
  if (inbox_ == nullptr) return;
  const std::shared_ptr<Attempt> attempt = attempt_;
  if (queued_bytes_ + bytes > kMaxQueuedByClient) {
    post_end({Code::kResourceExhausted,
              fmt::format("more than {} bytes wait to be sent", kMaxQueuedByClient)});
    lock.unlock();
    if (attempt != nullptr) attempt->cancel();
    return;
  }
  queued_bytes_ += bytes;
  queue_.push_back(std::move(wire));
  if (attempt != nullptr && confirmed_) attempt->pump(lock);
}

void Stream::detach() {
  std::shared_ptr<Attempt> attempt;
  {
    std::lock_guard lock(mutex_);
    inbox_ = nullptr;
    queue_.clear();
    attempt = attempt_;
  }
  if (attempt != nullptr) attempt->cancel();
}

class Handle final : public swarm::SpanStream {
 public:
  explicit Handle(std::shared_ptr<Stream> stream) : stream_(std::move(stream)) {}
  ~Handle() override { stream_->detach(); }
  void send(swarm::ClientMessage message) override { stream_->send(std::move(message)); }
  uint64_t bytes_sent() const override { return stream_->bytes_sent; }
  uint64_t bytes_received() const override { return stream_->bytes_received; }

 private:
  const std::shared_ptr<Stream> stream_;
};

}  // namespace

std::unique_ptr<swarm::SpanStream> GrpcConnector::connect(const swarm::PeerAddress& server,
                                                          swarm::OpenRequest request,
                                                          swarm::EventInbox& inbox,
                                                          uint64_t stream) {
  const std::shared_ptr<Links::Core>& core = links_.core();
  auto call = std::make_shared<Stream>(core, core->link(server.address, server.id),
                                       std::move(request), inbox, stream);
  call->begin();
  return std::make_unique<Handle>(std::move(call));
}

}  // namespace meadow::rpc
