#include <deque>

#include "rpc/convert.h"
#include "rpc/server_core.h"
#include "rpc/status.h"

namespace meadow::rpc {
namespace {

constexpr int64_t kFrameBytes = 5;  // gRPC's own, before each message

Error not_serving() {
  return {Code::kUnavailable, "this peer serves no blocks (yet, or any more)"};
}

int64_t payload_bytes(const swarm::ClientMessage& message) {
  const auto* step = std::get_if<swarm::StepRequest>(&message);
  return step == nullptr ? 0 : static_cast<int64_t>(step->input.bytes.size());
}

// One stream: reads go to the service, what the service sends is queued and written one at a time.
// Lives until OnDone; the service's sink and the worker's tasks hold it through Ref.
// Lock: mutex_ guards the fields below it. Finish is called once, when no write is under way and
// none will start, and only after it can OnDone come: so a write may start outside the lock.
class SessionReactor final : public grpc::ServerBidiReactor<pb::ClientMessage, pb::ServerMessage> {
 public:
  // What outlives the reactor.
  struct Ref {
    std::mutex mutex;
    SessionReactor* reactor = nullptr;  // null after OnDone
  };

  SessionReactor(ServerShared& shared, grpc::CallbackServerContext* context, PeerId client)
      : shared_(shared), context_(context), client_(client), ref_(std::make_shared<Ref>()) {
    ref_->reactor = this;
    shared_.counters.streams++;
    StartRead(&incoming_);
  }

 private:
  class Sink final : public swarm::ClientSink {
   public:
    explicit Sink(std::shared_ptr<Ref> ref) : ref_(std::move(ref)) {}
    void send(swarm::ServerMessage message) override {
      pb::ServerMessage wire;
      to_proto(std::move(message), &wire);
      std::lock_guard lock(ref_->mutex);
      if (ref_->reactor != nullptr) ref_->reactor->send(std::move(wire));
    }
    void close(Error error) override {
      std::lock_guard lock(ref_->mutex);
      if (ref_->reactor != nullptr) ref_->reactor->close(to_status(error));
    }

   private:
    const std::shared_ptr<Ref> ref_;
  };

  void OnReadDone(bool ok) override {
    if (!ok) return close(grpc::Status::OK);  // the client is through, or gone
    shared_.counters.bytes_received += incoming_.ByteSizeLong() + kFrameBytes;
    Result<swarm::ClientMessage> message = from_proto(incoming_);
    incoming_.Clear();
    if (!message) {
      shared_.counters.malformed++;
      return close(to_status(message.error()));
    }
    const int64_t bytes = payload_bytes(*message);
    if (bytes > 0) take(bytes);
    accept(std::move(*message), bytes);
    if (may_read()) StartRead(&incoming_);
  }

  // Hands the message to the service; its bytes are given back once the worker is past it.
  void accept(swarm::ClientMessage message, int64_t bytes) {
    shared_.span.with([&](HostedSpan::Parts parts) {
      if (parts.service == nullptr) return close(to_status(not_serving()));
      if (!opened_) return open(*parts.service, std::move(message));
      parts.service->receive(service_stream_, std::move(message));
      if (bytes == 0 || parts.worker == nullptr) return;
      parts.worker->post([ref = ref_, bytes] {
        std::lock_guard lock(ref->mutex);
        if (ref->reactor != nullptr) ref->reactor->give(bytes);
      });
    });
  }

  void open(swarm::SpanService& service, swarm::ClientMessage message) {
    auto* request = std::get_if<swarm::OpenRequest>(&message);
    if (request == nullptr)
      return close(to_status({Code::kInvalidArgument, "the first message must be an OpenRequest"}));
    opened_ = true;
    service_stream_ = service.open(client_, std::move(*request), std::make_shared<Sink>(ref_));
  }

  void take(int64_t bytes) {
    std::lock_guard lock(mutex_);
    pending_bytes_ += bytes;
  }

  // False: the stream is ending, or enough of its inputs wait for the worker, which then reads on.
  bool may_read() {
    std::lock_guard lock(mutex_);
    paused_ = pending_bytes_ > shared_.options.max_pending_bytes_per_stream;
    return !paused_ && !closing_;
  }

  void give(int64_t bytes) {
    {
      std::lock_guard lock(mutex_);
      pending_bytes_ -= bytes;
      const bool resume = paused_ && !closing_ &&
                          pending_bytes_ <= shared_.options.max_pending_bytes_per_stream / 2;
      if (!resume) return;
      paused_ = false;
    }
    StartRead(&incoming_);  // under Ref's lock: the reactor stays
  }

  void send(pb::ServerMessage wire) {
    std::unique_lock lock(mutex_);
    if (closing_) return;
    queued_bytes_ += static_cast<int64_t>(wire.ByteSizeLong());
    if (queued_bytes_ > shared_.options.max_queued_bytes_per_stream) {
      queue_.clear();
      lock.unlock();
      close(to_status({Code::kResourceExhausted, "the client does not read its outputs"}));
      return context_->TryCancel();  // the write under way may never end otherwise
    }
    queue_.push_back(std::move(wire));
    next(lock);
  }

  // Ends the stream with `status`, after what is queued.
  void close(const grpc::Status& status) {
    std::unique_lock lock(mutex_);
    if (closing_) return;
    closing_ = true;
    status_ = status;
    next(lock);
  }

  // Starts the next write, or ends the stream where nothing is left to write. Unlocks.
  void next(std::unique_lock<std::mutex>& lock) {
    if (writing_ || finished_) return;
    if (!queue_.empty()) {
      writing_ = true;
      outgoing_ = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      StartWrite(&outgoing_);
    } else if (closing_) {
      finished_ = true;
      lock.unlock();
      Finish(status_);
    }
  }

  void OnWriteDone(bool ok) override {
    const auto bytes = static_cast<int64_t>(outgoing_.ByteSizeLong());
    if (ok) shared_.counters.bytes_sent += bytes + kFrameBytes;
    std::unique_lock lock(mutex_);
    writing_ = false;
    queued_bytes_ -= bytes;
    if (!ok) {  // the client is gone
      queue_.clear();
      closing_ = true;
    }
    next(lock);
  }

  void OnCancel() override {
    std::unique_lock lock(mutex_);
    queue_.clear();
    closing_ = true;
    next(lock);
  }

  void OnDone() override {
    {
      std::lock_guard lock(ref_->mutex);
      ref_->reactor = nullptr;
    }
    if (opened_)
      shared_.span.with([&](HostedSpan::Parts parts) {
        if (parts.service != nullptr) parts.service->closed(service_stream_);
      });
    shared_.counters.streams--;
    delete this;
  }

  ServerShared& shared_;
  grpc::CallbackServerContext* const context_;
  const PeerId client_;
  const std::shared_ptr<Ref> ref_;
  pb::ClientMessage incoming_;
  pb::ServerMessage outgoing_;
  // Of the reactions, which come one after another:
  bool opened_ = false;
  uint64_t service_stream_ = 0;

  std::mutex mutex_;
  std::deque<pb::ServerMessage> queue_;
  grpc::Status status_;
  int64_t queued_bytes_ = 0, pending_bytes_ = 0;
  bool paused_ = false, writing_ = false, closing_ = false, finished_ = false;
};

// A stream that is refused at once.
class Refusal final : public grpc::ServerBidiReactor<pb::ClientMessage, pb::ServerMessage> {
 public:
  explicit Refusal(const grpc::Status& status) { Finish(status); }
  void OnDone() override { delete this; }
};

class SpanHandlers final : public pb::Span::CallbackService {
 public:
  explicit SpanHandlers(ServerShared& shared) : shared_(shared) {}

 private:
  grpc::ServerBidiReactor<pb::ClientMessage, pb::ServerMessage>* Session(
      grpc::CallbackServerContext* context) override {
    const auto client = shared_.gate.admit(*context);
    if (!client) return new Refusal(client.error());
    if (shared_.counters.streams >= shared_.options.max_streams)
      return new Refusal(to_status(
          {Code::kResourceExhausted, fmt::format("{} streams are open here, which is the limit",
                                                 shared_.options.max_streams)}));
    return new SessionReactor(shared_, context, *client);
  }

  grpc::ServerUnaryReactor* Push(grpc::CallbackServerContext* context,
                                 const pb::PushRequest* request, pb::PushReply*) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(push(*context, *request));
    return reactor;
  }

  grpc::Status push(const grpc::CallbackServerContext& context, const pb::PushRequest& wire) {
    const auto from = shared_.gate.admit(context);
    if (!from) return from.error();
    shared_.counters.bytes_received += wire.ByteSizeLong() + kFrameBytes;
    Result<swarm::PushRequest> request = from_proto(wire);
    if (!request) {
      shared_.counters.malformed++;
      return to_status(request.error());
    }
    const auto bytes = static_cast<int64_t>(request->input.bytes.size());
    return shared_.span.with([&](HostedSpan::Parts parts) {
      if (parts.service == nullptr) return to_status(not_serving());
      if (!shared_.pending->take(bytes))
        return to_status({Code::kResourceExhausted, "too many inputs wait to be computed here"});
      const Result<void> taken = parts.service->push(*from, std::move(*request));
      if (parts.worker == nullptr || !taken)
        shared_.pending->give(bytes);
      else
        parts.worker->post([pending = shared_.pending, bytes] { pending->give(bytes); });
      return taken ? grpc::Status::OK : to_status(taken.error());
    });
  }

  ServerShared& shared_;
};

}  // namespace

std::unique_ptr<grpc::Service> make_span_service(ServerShared& shared) {
  return std::make_unique<SpanHandlers>(shared);
}

}  // namespace meadow::rpc
