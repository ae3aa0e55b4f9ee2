#include "lab/relay.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <queue>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/check.h"

namespace meadow::lab {
namespace {

// What the kernel puts before each packet: struct virtio_net_hdr of <linux/virtio_net.h>, which is
// no C++ everywhere.
struct VirtioHeader {
  uint8_t flags;
  uint8_t gso_type;  // 0: one packet as it is; else `gso_size` bytes of payload in each piece
  uint16_t header_size;
  uint16_t gso_size;
  uint16_t checksum_start, checksum_offset;
};
constexpr size_t kHeader = sizeof(VirtioHeader);
static_assert(kHeader == 10);
constexpr size_t kMaxPacket = kHeader + 65536;
constexpr int kBurst = 32;  // packets of one device before the others and the clock get a look
constexpr int kPriority = 10;

uint32_t read_be32(const uint8_t* p) {
  return uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | p[3];
}

// Bytes that the packet would be on a wire: a large one travels in pieces, each with its headers.
size_t wire_size(std::span<const uint8_t> packet) {
  VirtioHeader header;
  std::memcpy(&header, packet.data(), kHeader);
  const size_t size = packet.size() - kHeader;
  if (header.gso_type == 0 || header.gso_size == 0 || size <= header.header_size) return size;
  const size_t pieces = (size - header.header_size + header.gso_size - 1) / header.gso_size;
  return size + (pieces - 1) * header.header_size;
}

struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

}  // namespace

struct Relay::Core {
  struct Due {
    TimePoint at;
    size_t line;
    bool operator>(const Due& other) const { return at > other.at; }
  };

  std::vector<RelayPort> ports;
  std::unordered_map<uint32_t, size_t> port_of;  // by address
  // From host a to host b at a * n + b; into host b at n * n + b.
  std::vector<DelayLine> lines;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> agenda;  // every line that holds any
  RelayStats counts;
  mutable std::mutex mutex;  // all of the above

  Descriptor poll, timer, wake;
  Descriptor awake;  // while it is open the kernel lets no processor sleep deeper than 0 us
  std::atomic<bool> stopping = false, priority = false;
  std::thread thread;
  std::vector<uint8_t> buffer = std::vector<uint8_t>(kMaxPacket);

  size_t n() const { return ports.size(); }
  DelayLine& into(size_t host) { return lines[n() * n() + host]; }

  void run();
  void read_from(size_t host);
  void route(size_t from, std::span<const uint8_t> packet);
  void enter(size_t line, TimePoint now, std::span<const uint8_t> packet);
  void arrive(size_t line, std::span<const uint8_t> packet, TimePoint now);
  void write_to(size_t host, std::span<const uint8_t> packet);
  void deliver();
  void arm();
};

Relay::Relay(std::vector<RelayPort> ports, const LabFile& file) : core_(new Core) {
  MEADOW_CHECK(ports.size() == file.hosts.size());
  core_->ports = std::move(ports);
  const size_t n = core_->n();
  Rng seeds(file.seed);
  for (size_t a = 0; a < n; a++)
    for (size_t b = 0; b < n; b++)
      core_->lines.emplace_back(file.link(a, b), seeds.next(), file.queue_bytes);
  for (size_t b = 0; b < n; b++) {
    LinkShape down;
    down.rate = file.hosts[b].down;
    core_->lines.emplace_back(down, seeds.next(), file.queue_bytes);
    core_->port_of[core_->ports[b].address] = b;
  }
}

Relay::~Relay() { stop(); }

Result<void> Relay::start() {
  Core& c = *core_;
  c.poll.fd = epoll_create1(EPOLL_CLOEXEC);
  c.timer.fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  c.wake.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  auto watch = [&](int fd, uint64_t what) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = what;
    return fd >= 0 && epoll_ctl(c.poll.fd, EPOLL_CTL_ADD, fd, &event) == 0;
  };
  bool ok = watch(c.timer.fd, c.n()) && watch(c.wake.fd, c.n() + 1);
  for (size_t i = 0; i < c.n(); i++) ok = ok && watch(c.ports[i].device, i);
  if (!ok)
    return fail(Code::kResourceExhausted, "the relay of the lab: epoll, timerfd or eventfd: {}",
                std::strerror(errno));
  // Documentation/power/pm_qos_interface.rst of Linux: an int32 of microseconds.
  c.awake.fd = open("/dev/cpu_dma_latency", O_WRONLY | O_CLOEXEC);
  const int32_t latency = 0;
  if (c.awake.fd >= 0 && write(c.awake.fd, &latency, sizeof latency) != sizeof latency)
    close(std::exchange(c.awake.fd, -1));
  c.thread = std::thread([&c] { c.run(); });
  const sched_param priority{.sched_priority = kPriority};
  c.priority = pthread_setschedparam(c.thread.native_handle(), SCHED_FIFO, &priority) == 0;
  return {};
}

void Relay::stop() {
  Core& c = *core_;
  if (!c.thread.joinable()) return;
  c.stopping = true;
  const uint64_t one = 1;
  MEADOW_CHECK(write(c.wake.fd, &one, sizeof one) == sizeof one);
  c.thread.join();
  if (c.awake.fd >= 0) close(std::exchange(c.awake.fd, -1));
}

void Relay::Core::run() {
  epoll_event events[16];
  while (!stopping) {
    const int ready = epoll_wait(poll.fd, events, 16, -1);
    std::lock_guard lock(mutex);
    for (int i = 0; i < ready; i++) {
      const uint64_t what = events[i].data.u64;
      if (what < n()) {
        read_from(what);
      } else if (what == n()) {
        uint64_t expirations;
        // Nothing to read means that the timer was armed anew meanwhile.
        (void)!read(timer.fd, &expirations, sizeof expirations);
      }
      deliver();
    }
    arm();
  }
}

void Relay::Core::read_from(size_t host) {
  for (int i = 0; i < kBurst; i++) {
    const ssize_t size = read(ports[host].device, buffer.data(), buffer.size());
    if (size < 0) return;
    counts.packets++;
    counts.bytes += static_cast<uint64_t>(size);
    route(host, {buffer.data(), static_cast<size_t>(size)});
  }
}

void Relay::Core::route(size_t from, std::span<const uint8_t> packet) {
  constexpr size_t kIpHeader = 20, kDestination = 16;
  const bool is_ip = packet.size() >= kHeader + kIpHeader && packet[kHeader] >> 4 == 4;
  const auto to = is_ip ? port_of.find(read_be32(&packet[kHeader + kDestination])) : port_of.end();
  if (to == port_of.end() || to->second == from) {
    counts.unknown++;
    return;
  }
  enter(from * n() + to->second, SystemClock().now(), packet);
}

void Relay::Core::enter(size_t line, TimePoint now, std::span<const uint8_t> packet) {
  DelayLine& l = lines[line];
  const bool was_empty = !l.due();
  if (was_empty && l.shape() == LinkShape{}) return arrive(line, packet, now);
  const DelayLineStats before = l.stats();
  if (!l.push(now, packet, wire_size(packet))) {
    counts.lost += l.stats().lost - before.lost;
    counts.dropped += l.stats().dropped - before.dropped;
    return;
  }
  if (was_empty) agenda.push({*l.due(), line});
}

void Relay::Core::arrive(size_t line, std::span<const uint8_t> packet, TimePoint now) {
  if (line < n() * n()) return enter(n() * n() + line % n(), now, packet);
  write_to(line - n() * n(), packet);
}

void Relay::Core::write_to(size_t host, std::span<const uint8_t> packet) {
  if (write(ports[host].device, packet.data(), packet.size()) < 0) counts.failed++;
}

void Relay::Core::deliver() {
  if (agenda.empty()) return;
  TimePoint now = SystemClock().now();
  while (!agenda.empty() && agenda.top().at <= now) {
    const Due due = agenda.top();
    agenda.pop();
    counts.worst_delay = std::max(counts.worst_delay, Duration(now - due.at));
    DelayLine& line = lines[due.line];
    arrive(due.line, line.front(), due.at);
    line.pop();
    if (const auto next = line.due()) agenda.push({*next, due.line});
    now = SystemClock().now();
  }
}

void Relay::Core::arm() {
  itimerspec spec{};
  if (!agenda.empty()) {
    // A time in the past would be fine, zero would disarm.
    const int64_t at = std::max<int64_t>(agenda.top().at.time_since_epoch().count(), 1);
    spec.it_value = {at / 1'000'000'000, at % 1'000'000'000};
  }
  timerfd_settime(timer.fd, TFD_TIMER_ABSTIME, &spec, nullptr);
}

void Relay::reshape(size_t a, size_t b, const LinkShape& shape) {
  Core& c = *core_;
  MEADOW_CHECK(a < c.n() && b < c.n());
  std::lock_guard lock(c.mutex);
  c.lines[a * c.n() + b].reshape(shape);
  c.lines[b * c.n() + a].reshape(shape);
}

void Relay::limit_down(size_t host, double rate) {
  Core& c = *core_;
  MEADOW_CHECK(host < c.n());
  std::lock_guard lock(c.mutex);
  LinkShape down;
  down.rate = rate;
  c.into(host).reshape(down);
}

LinkShape Relay::shape(size_t a, size_t b) const {
  MEADOW_CHECK(a < core_->n() && b < core_->n());
  std::lock_guard lock(core_->mutex);
  return core_->lines[a * core_->n() + b].shape();
}

RelayStats Relay::stats() const {
  std::lock_guard lock(core_->mutex);
  return core_->counts;
}

bool Relay::has_priority() const { return core_->priority; }
bool Relay::keeps_awake() const { return core_->awake.fd >= 0; }

}  // namespace meadow::lab
