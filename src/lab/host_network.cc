#include "lab/host_network.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

namespace meadow::lab {
namespace {

constexpr uint32_t kNetmask = 0xffff0000;
constexpr int kQueuedPackets = 1000;
// tbf sends this long at full speed before it looks at the clock; shorter and the timers of the
// kernel cost rate, longer and a short message would not feel the limit.
constexpr double kBurstSeconds = 200e-6;
constexpr double kQueueSeconds = 0.1;

struct Descriptor {
  int fd = -1;
  explicit Descriptor(int f) : fd(f) {}
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
  int release() { return std::exchange(fd, -1); }
};

// Runs `f` on a thread of its own and returns what it returns.
template <class F>
auto on_own_thread(F f) -> decltype(f()) {
  decltype(f()) result = fail(Code::kInternal, "no thread");
  std::thread([&] { result = f(); }).join();
  return result;
}

std::unexpected<Error> system_error(const char* what) {
  const int error = errno;
  const Code code = error == EPERM || error == EACCES ? Code::kPermissionDenied
                    : error == ENOSYS || error == EINVAL || error == ENODEV || error == ENOENT
                        ? Code::kUnsupported
                        : Code::kResourceExhausted;
  return fail(code, "{}: {}", what, std::strerror(error));
}

Result<int> open_device() {
  Descriptor fd(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (fd.fd < 0)
    return system_error(
        "no tun devices (/dev/net/tun; load the module tun, or allow the device "
        "in this container)");
  ifreq request{};
  std::strncpy(request.ifr_name, kDevice, IFNAMSIZ - 1);
  request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
  if (ioctl(fd.fd, TUNSETIFF, &request) != 0) return system_error("cannot make a tun device");
  return fd.release();
}

Result<void> bring_up(int socket, const char* device) {
  ifreq request{};
  std::strncpy(request.ifr_name, device, IFNAMSIZ - 1);
  if (ioctl(socket, SIOCGIFFLAGS, &request) != 0) return system_error("flags of a device");
  request.ifr_flags |= IFF_UP;
  if (ioctl(socket, SIOCSIFFLAGS, &request) != 0) return system_error("cannot start a device");
  return {};
}

Result<void> configure(uint32_t address, int mtu) {
  Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (socket.fd < 0) return system_error("no socket");
  MEADOW_TRY_VOID(bring_up(socket.fd, "lo"));
  ifreq request{};
  std::strncpy(request.ifr_name, kDevice, IFNAMSIZ - 1);
  auto set_address = [&](unsigned long what, uint32_t value) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_addr.s_addr = htonl(value);
    std::memcpy(&request.ifr_addr, &in, sizeof in);
    return ioctl(socket.fd, what, &request) == 0;
  };
  if (!set_address(SIOCSIFADDR, address) || !set_address(SIOCSIFNETMASK, kNetmask))
    return system_error("cannot give a device its address");
  request.ifr_mtu = mtu;
  if (ioctl(socket.fd, SIOCSIFMTU, &request) != 0) return system_error("cannot set the MTU");
  request.ifr_qlen = kQueuedPackets;
  if (ioctl(socket.fd, SIOCSIFTXQLEN, &request) != 0) return system_error("cannot set the queue");
  return bring_up(socket.fd, kDevice);
}

// Runs a program of the system in the calling thread's namespaces; its own words on failure.
Result<void> run_tool(const std::vector<std::string>& words) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return system_error("no pipe");
  Descriptor out(ends[0]), in(ends[1]);
  std::vector<char*> argv;
  for (const std::string& w : words) argv.push_back(const_cast<char*>(w.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.fd, 1);
  posix_spawn_file_actions_adddup2(&actions, in.fd, 2);
  // Sbin is not on everybody's path.
  char path[] = "PATH=/usr/sbin:/sbin:/usr/bin:/bin";
  char* const environment[] = {path, nullptr};
  pid_t pid;
  int error = ENOENT;
  for (const char* folder : {"/usr/sbin/", "/sbin/", "/usr/bin/", "/bin/"}) {
    const std::string program = folder + words[0];
    error = posix_spawn(&pid, program.c_str(), &actions, nullptr, argv.data(), environment);
    if (error != ENOENT) break;
  }
  posix_spawn_file_actions_destroy(&actions);
  if (error == ENOENT)
    return fail(Code::kNotFound, "there is no program {}: install iproute2", words[0]);
  if (error != 0) return fail(Code::kInternal, "{}: {}", words[0], std::strerror(error));
  close(in.release());
  std::string text;
  char buffer[512];
  for (ssize_t n; (n = read(out.fd, buffer, sizeof buffer)) > 0 && text.size() < 4096;)
    text.append(buffer, static_cast<size_t>(n));
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (status != 0) return fail(Code::kUnsupported, "{}: {}", fmt::join(words, " "), text);
  return {};
}

}  // namespace

std::string address_text(uint32_t address) {
  return fmt::format("{}.{}.{}.{}", address >> 24, address >> 16 & 255, address >> 8 & 255,
                     address & 255);
}

Result<HostNetwork> HostNetwork::make(uint32_t address, int mtu) {
  return on_own_thread([&]() -> Result<HostNetwork> {
    if (unshare(CLONE_NEWNET) != 0)
      return system_error(
          "no network namespaces (they need root, or CAP_SYS_ADMIN and "
          "CAP_NET_ADMIN, and a kernel that has them)");
    MEADOW_TRY(const int device, open_device());
    HostNetwork host(-1, device);
    MEADOW_TRY_VOID(configure(address, mtu));
    host.namespace_ = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    if (host.namespace_ < 0) return system_error("/proc/thread-self/ns/net");
    return host;
  });
}

HostNetwork::~HostNetwork() {
  if (device_ >= 0) close(device_);
  if (namespace_ >= 0) close(namespace_);
}

HostNetwork::HostNetwork(HostNetwork&& other) noexcept
    : namespace_(std::exchange(other.namespace_, -1)), device_(std::exchange(other.device_, -1)) {}

HostNetwork& HostNetwork::operator=(HostNetwork&& other) noexcept {
  std::swap(namespace_, other.namespace_);
  std::swap(device_, other.device_);
  return *this;
}

std::string HostNetwork::path() const {
  return fmt::format("/proc/{}/fd/{}", getpid(), namespace_);
}

Result<void> HostNetwork::enter() const {
  if (setns(namespace_, CLONE_NEWNET) != 0) return system_error("cannot enter a host");
  return {};
}

Result<void> HostNetwork::set_offload(bool on) {
  const unsigned long flags = on ? TUN_F_CSUM | TUN_F_TSO4 : 0;
  if (ioctl(device_, TUNSETOFFLOAD, flags) != 0)
    return system_error("a tun device's offload cannot be set");
  return {};
}

Result<void> HostNetwork::set_congestion(const std::string& name) {
  return on_own_thread([&]() -> Result<void> {
    MEADOW_TRY_VOID(enter());
    // Whose setting this is depends on the thread that opens it.
    Descriptor file(open("/proc/sys/net/ipv4/tcp_congestion_control", O_WRONLY | O_CLOEXEC));
    if (file.fd < 0 || write(file.fd, name.data(), name.size()) < 0)
      return system_error("the kernel has no such congestion control");
    return {};
  });
}

Result<void> HostNetwork::limit_up(double rate, int mtu) {
  return on_own_thread([&]() -> Result<void> {
    MEADOW_TRY_VOID(enter());
    if (rate <= 0)
      return run_tool({"tc", "qdisc", "replace", "dev", kDevice, "root", "pfifo_fast"});
    const double burst = std::max(rate / 8 * kBurstSeconds, static_cast<double>(mtu) + 14);
    const double queue = std::max(rate / 8 * kQueueSeconds, 65536.0);
    return run_tool({"tc", "qdisc", "replace", "dev", kDevice, "root", "tbf", "rate",
                     fmt::format("{:.0f}bit", rate), "burst", fmt::format("{:.0f}", burst), "limit",
                     fmt::format("{:.0f}", queue)});
  });
}

Result<void> enter_network(const std::string& path) {
  Descriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.fd < 0)
    return fail(Code::kNotFound, "there is no network namespace {}: {}", path,
                std::strerror(errno));
  if (setns(fd.fd, CLONE_NEWNET) != 0)
    return fail(Code::kPermissionDenied, "cannot enter the network namespace {}: {}", path,
                std::strerror(errno));
  return {};
}

Result<void> check_requirements() {
  MEADOW_TRY(auto host, HostNetwork::make(0x0a5a0001, 1500));
  MEADOW_TRY_VOID(host.set_offload(true));
  MEADOW_TRY_VOID(host.limit_up(1e8, 1500));
  return {};
}

}  // namespace meadow::lab
