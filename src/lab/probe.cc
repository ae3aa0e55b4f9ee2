#include "lab/probe.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <optional>
#include <thread>

#include "base/check.h"

namespace meadow::lab {
namespace {

constexpr Duration kPatience = 3s;  // beyond the round trip

// A socket made inside a host; it stays there whichever thread uses it.
class Socket {
 public:
  static Result<Socket> open(const Lab& lab, size_t host, int type) {
    Result<Socket> result = fail(Code::kInternal, "no thread");
    std::thread([&] {
      const auto entered = lab.network(host).enter();
      const int fd = entered ? ::socket(AF_INET, type | SOCK_CLOEXEC, 0) : -1;
      if (fd >= 0)
        result = Socket(fd);
      else
        result =
            fail(entered ? Error{Code::kResourceExhausted, std::strerror(errno)} : entered.error());
    }).join();
    if (!result) return result;
    sockaddr_in any = address(lab.address(host), 0);
    if (bind(result->fd_, reinterpret_cast<sockaddr*>(&any), sizeof any) != 0)
      return fail(Code::kUnavailable, "bind: {}", std::strerror(errno));
    return result;
  }
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

  static sockaddr_in address(uint32_t host, uint16_t port) {
    sockaddr_in out{};
    out.sin_family = AF_INET;
    out.sin_addr.s_addr = htonl(host);
    out.sin_port = htons(port);
    return out;
  }
  Result<sockaddr_in> own() const {
    sockaddr_in out{};
    socklen_t size = sizeof out;
    if (getsockname(fd_, reinterpret_cast<sockaddr*>(&out), &size) != 0)
      return fail(Code::kInternal, "getsockname: {}", std::strerror(errno));
    return out;
  }
  Result<void> connect(const sockaddr_in& to) const {
    if (::connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0)
      return fail(Code::kUnavailable, "connect: {}", std::strerror(errno));
    return {};
  }
  // Whether something is there to read before the time is over.
  bool readable(Duration wait) const {
    pollfd p{fd_, POLLIN, 0};
    return poll(&p, 1, static_cast<int>(wait / 1ms)) == 1;
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

// Sends back every datagram until told to stop.
class Echo {
 public:
  explicit Echo(const Socket& socket)
      : thread_([this, &socket] {
          uint8_t buffer[2048];
          while (!stop_) {
            if (!socket.readable(50ms)) continue;
            sockaddr_in from{};
            socklen_t size = sizeof from;
            const ssize_t n = recvfrom(socket.fd(), buffer, sizeof buffer, 0,
                                       reinterpret_cast<sockaddr*>(&from), &size);
            if (n > 0)
              (void)!sendto(socket.fd(), buffer, static_cast<size_t>(n), 0,
                            reinterpret_cast<sockaddr*>(&from), size);
          }
        }) {}
  ~Echo() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

// The round trip of datagram `number`; nothing if it was lost.
std::optional<Duration> one_round_trip(const Socket& socket, int number, size_t bytes,
                                       Duration patience) {
  std::vector<uint8_t> packet(bytes);
  std::memcpy(packet.data(), &number, sizeof number);
  const SystemClock clock;
  const TimePoint start = clock.now();
  if (send(socket.fd(), packet.data(), packet.size(), 0) < 0) return std::nullopt;
  while (socket.readable(patience)) {
    int got = -1;
    const ssize_t n = recv(socket.fd(), packet.data(), packet.size(), 0);
    if (n >= static_cast<ssize_t>(sizeof got)) std::memcpy(&got, packet.data(), sizeof got);
    if (got == number) return clock.now() - start;
  }
  return std::nullopt;
}

}  // namespace

Duration RoundTrips::at(double quantile) const {
  if (sorted.empty()) return {};
  const auto last = static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<size_t>(std::clamp(quantile, 0.0, 1.0) * last + 0.5)];
}

Duration RoundTrips::mean() const {
  if (sorted.empty()) return {};
  return std::accumulate(sorted.begin(), sorted.end(), Duration{}) /
         static_cast<int64_t>(sorted.size());
}

Result<RoundTrips> measure_round_trips(const Lab& lab, size_t from, size_t to, int count,
                                       size_t bytes) {
  MEADOW_CHECK(bytes >= 16 && bytes <= 1400);
  MEADOW_TRY(const Socket near, Socket::open(lab, from, SOCK_DGRAM));
  MEADOW_TRY(const Socket far, Socket::open(lab, to, SOCK_DGRAM));
  MEADOW_TRY(const sockaddr_in there, far.own());
  MEADOW_TRY_VOID(near.connect(there));
  const Echo echo(far);
  const LinkShape shape = lab.link(from, to);
  // A lost one must not cost seconds.
  const Duration patience = shape.loss > 0 ? shape.rtt + 2 * shape.jitter + 100ms
                                           : shape.rtt + 2 * shape.jitter + kPatience;
  RoundTrips trips;
  for (int i = 0; i < count; i++) {
    trips.sent++;
    if (const auto trip = one_round_trip(near, i, bytes, patience)) trips.sorted.push_back(*trip);
  }
  std::sort(trips.sorted.begin(), trips.sorted.end());
  return trips;
}

Result<double> measure_rate(const Lab& lab, size_t from, size_t to, Duration time) {
  MEADOW_TRY(const Socket listener, Socket::open(lab, to, SOCK_STREAM));
  if (listen(listener.fd(), 1) != 0)
    return fail(Code::kUnavailable, "listen: {}", std::strerror(errno));
  MEADOW_TRY(const sockaddr_in there, listener.own());
  MEADOW_TRY(const Socket sender, Socket::open(lab, from, SOCK_STREAM));
  MEADOW_TRY_VOID(sender.connect(there));
  const Socket receiver(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  if (receiver.fd() < 0) return fail(Code::kUnavailable, "accept: {}", std::strerror(errno));

  std::atomic<bool> stop = false;
  std::thread source([&] {
    const std::vector<uint8_t> block(256 * 1024);
    while (!stop && send(sender.fd(), block.data(), block.size(), MSG_NOSIGNAL) > 0) {
    }
  });
  const SystemClock clock;
  const TimePoint start = clock.now(), from_here = start + time, until = start + 2 * time;
  std::vector<uint8_t> buffer(1 << 20);
  uint64_t bytes = 0;
  std::optional<TimePoint> first;
  TimePoint last = start;
  while (last < until && receiver.readable(kPatience + 2 * lab.link(from, to).rtt)) {
    const ssize_t n = recv(receiver.fd(), buffer.data(), buffer.size(), 0);
    if (n <= 0) break;
    last = clock.now();
    // What was read first may have waited here for a while.
    if (first) bytes += static_cast<uint64_t>(n);
    if (!first && last >= from_here) first = last;
  }
  stop = true;
  shutdown(receiver.fd(), SHUT_RDWR);
  shutdown(sender.fd(), SHUT_RDWR);
  source.join();
  if (!first || last <= *first) return fail(Code::kUnavailable, "nothing came through the lab");
  return static_cast<double>(bytes) * 8 / seconds(last - *first);
}

}  // namespace meadow::lab
