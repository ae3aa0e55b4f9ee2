#include "sim/session_world.h"

namespace meadow::sim {

namespace {

class WorldWorker final : public Worker {
 public:
  WorldWorker(World& world, Server& server) : world_(world), server_(server) {}
  void post(std::function<void()> task) override {
    const TimePoint now = world_.loop.now();
    busy_until_ = std::max(busy_until_, now) + server_.task_time +
                  server_.token_time * std::max<int64_t>(0, server_.step_tokens - 1);
    world_.loop.post_on(server_.peer, busy_until_ - now, std::move(task));
  }

 private:
  World& world_;
  Server& server_;
  TimePoint busy_until_{};
};

class WorldPush final : public PushPort {
 public:
  WorldPush(World& world, Server& from) : world_(world), from_(from) {}
  void push(const PeerAddress& to, PushRequest request, Deadline deadline,
            std::function<void(Result<void>)> done) override {
    Server* target = world_.by_id(to.id);
    const Duration way = world_.server_latency;
    const auto answer = [this, done](Result<void> result) {
      world_.loop.post_on(from_.peer, world_.server_latency, [done, result] { done(result); });
    };
    if (world_.pushes_to_drop > 0) {
      world_.pushes_to_drop--;
      return;
    }
    if (target != nullptr && world_.send_fails()) {
      world_.loop.post_after(way, [this, target] { world_.reset(*target); });
      return world_.loop.post_on(from_.peer, 2 * way,
                                 [done] { done(fail(Code::kUnavailable, "connection reset")); });
    }
    if (world_.pushes_to_fail > 0 || target == nullptr || !world_.alive(*target)) {
      if (world_.pushes_to_fail > 0) world_.pushes_to_fail--;
      return answer(fail(Code::kUnavailable, "connection refused"));
    }
    const int copies = world_.pushes_to_double > 0 ? 2 : 1;
    if (copies == 2) world_.pushes_to_double--;
    auto settled = std::make_shared<bool>(false);
    for (int i = 0; i < copies; i++)
      world_.loop.post_on(target->peer, way, [this, target, request, answer, settled] {
        target->pushes_in++;
        target->step_tokens = request.input.count;
        auto result = target->service->push(from_.id, request);
        target->step_tokens = 0;
        if (!*settled) answer(std::move(result));
        *settled = true;
      });
    world_.loop.post_on(from_.peer, deadline.at() - world_.loop.now(), [settled, done] {
      if (!*settled) done(fail(Code::kDeadlineExceeded, "no answer to a push"));
      *settled = true;
    });
  }

 private:
  World& world_;
  Server& from_;
};

class WorldSink final : public ClientSink {
 public:
  WorldSink(World& world, std::shared_ptr<Link> link) : world_(world), link_(std::move(link)) {}
  void send(ServerMessage message) override { deliver(std::move(message)); }
  void close(Error error) override { deliver(StreamClosed{std::move(error)}); }

 private:
  template <class What>
  void deliver(What what) {
    world_.to_client(link_, world_.client_latency + link_->server->to_client_delay,
                     {link_->number, std::move(what)});
  }
  World& world_;
  std::shared_ptr<Link> link_;
};

class WorldStream final : public SpanStream {
 public:
  WorldStream(World& world, std::shared_ptr<Link> link) : world_(world), link_(std::move(link)) {}
  ~WorldStream() override {
    link_->closed = true;
    world_.loop.post_on(link_->server->peer, world_.client_latency, [link = link_] {
      if (link->served != 0) link->server->service->closed(link->served);
    });
  }
  void send(ClientMessage message) override {
    const auto* step = std::get_if<StepRequest>(&message);
    if (step != nullptr) sent_ += step->input.bytes.size();
    if (step != nullptr && world_.send_fails())
      return world_.loop.post_after(world_.client_latency, [this_world = &world_, link = link_] {
        if (!link->closed) this_world->reset(*link->server);
      });
    const int64_t tokens = step == nullptr ? 0 : step->input.count;
    world_.loop.post_on(link_->server->peer, world_.client_latency,
                        [link = link_, message = std::move(message), tokens] {
                          if (link->served == 0) return;
                          link->server->step_tokens = tokens;
                          link->server->service->receive(link->served, message);
                          link->server->step_tokens = 0;
                        });
  }
  uint64_t bytes_sent() const override { return sent_; }
  uint64_t bytes_received() const override { return 0; }

 private:
  World& world_;
  std::shared_ptr<Link> link_;
  uint64_t sent_ = 0;
};

}  // namespace

Server& World::add_server(BlockRange blocks, int64_t cache_tokens, double tokens_per_s) {
  auto server = std::make_unique<Server>();
  Server& s = *server;
  const std::string label = "server " + std::to_string(servers.size());
  std::copy_n(sha256(label).bytes.begin(), PeerId::kSize, s.id.bytes.begin());
  s.peer = loop.add_peer();
  s.blocks = blocks;
  s.compute = std::make_unique<ToyBlocks>(blocks, n_embd, cache_tokens);
  s.worker = std::make_unique<WorldWorker>(*this, s);
  s.push = std::make_unique<WorldPush>(*this, s);
  s.service = std::make_unique<SpanService>(SpanServiceOptions{.blocks = blocks,
                                                               .n_embd = n_embd,
                                                               .max_context = 100000,
                                                               .fingerprint = fingerprint,
                                                               .numerics = 1},
                                            *s.compute, *s.worker, *s.push, loop.clock());
  ServerInfo info{.peer = {s.id, label}, .rtt = Duration(10ms)};
  info.lease.state = ServerState::kOnline;
  info.lease.blocks = blocks;
  info.lease.n_blocks = n_blocks;
  info.lease.codecs = 0b1110;
  info.lease.speed.decode = tokens_per_s;
  info.lease.free_cache_tokens = cache_tokens;
  directory.add(std::move(info));
  servers.push_back(std::move(server));
  beat(s);
  return s;
}

void World::beat(Server& server) {
  loop.post_on(server.peer, kBeatPeriod, [this, &server] {
    server.service->tick();
    beat(server);
  });
}

Server* World::by_id(const PeerId& id) {
  for (auto& s : servers)
    if (s->id == id) return s.get();
  return nullptr;
}

void World::kill(Server& server) {
  if (!alive(server)) return;
  loop.kill(server.peer);
  for (const auto& weak : links)
    if (auto link = weak.lock(); link && link->server == &server)
      to_client(link, client_latency,
                {link->number, StreamClosed{{Code::kUnavailable, "connection reset"}}});
}

void World::reset(Server& server) {
  for (const auto& weak : links)
    if (auto link = weak.lock(); link && link->server == &server && link->served != 0) {
      loop.post_on(server.peer, Duration{},
                   [link] { link->server->service->closed(std::exchange(link->served, 0)); });
      to_client(link, client_latency,
                {link->number, StreamClosed{{Code::kUnavailable, "connection reset"}}});
    }
}

void World::to_client(std::shared_ptr<Link> link, Duration delay, StreamEvent event) {
  loop.post_after(delay, [link = std::move(link), event = std::move(event)] {
    if (!link->closed) link->inbox->post(event);
  });
}

SessionOptions World::session_options(int64_t max_tokens) const {
  return {.n_blocks = n_blocks,
          .n_embd = n_embd,
          .max_tokens = max_tokens,
          .fingerprint = fingerprint,
          .numerics = 1};
}

std::vector<float> World::inputs(int64_t first, int64_t n) const {
  std::vector<float> x;
  for (int64_t i = first * n_embd; i < (first + n) * n_embd; i++)
    x.push_back(static_cast<float>(i % 97) * 0.25f - 11.0f);
  return x;
}

std::vector<float> World::reference(int64_t n, int64_t from) const {
  ToyBlocks whole({0, n_blocks}, n_embd, n);
  SessionId id;
  id.bytes[0] = 1;
  MEADOW_CHECK(whole.open(id, {0, n_blocks}, n).has_value());
  const auto out = whole.forward(id, 0, inputs(0, n), CancelToken()).value();
  return {out.begin() + from * n_embd, out.end()};
}

std::unique_ptr<SpanStream> World::connect(const PeerAddress& to, OpenRequest request,
                                           EventInbox& inbox, uint64_t stream) {
  Server* server = by_id(to.id);
  MEADOW_CHECK(server != nullptr);
  auto link = std::make_shared<Link>(Link{server, stream, &inbox});
  links.push_back(link);
  if (!alive(*server))
    to_client(link, 2 * client_latency,
              {stream, StreamClosed{{Code::kUnavailable, "connection refused"}}});
  loop.post_on(server->peer, client_latency, [this, server, link, request] {
    link->served =
        server->service->open(PeerId{}, request, std::make_shared<WorldSink>(*this, link));
  });
  return std::make_unique<WorldStream>(*this, link);
}

std::optional<StreamEvent> World::wait(TimePoint until, const CancelToken* cancel) {
  loop.run_until(until,
                 [&] { return !inbox_.empty() || (cancel != nullptr && cancel->cancelled()); });
  if (inbox_.empty()) return std::nullopt;
  StreamEvent event = std::move(inbox_.front());
  inbox_.pop();
  return event;
}

}  // namespace meadow::sim
