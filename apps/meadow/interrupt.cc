#include "meadow/interrupt.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

namespace meadow::apps {
namespace {

CancelToken g_token;
std::atomic<bool> g_terminated{false};
volatile sig_atomic_t g_unheard = 0;  // signals since the token was set
int g_pipe[2] = {-1, -1};             // written by the handler, so that poll() wakes

void handle(int signal) {
  const int saved = errno;
  // Asked again and again, and nobody took notice: whoever should does not listen.
  g_unheard = g_token.cancelled() ? g_unheard + 1 : 0;
  if (g_unheard >= 2) _exit(130);
  if (signal == SIGTERM) g_terminated.store(true);
  g_token.cancel();
  const char byte = 1;
  if (::write(g_pipe[1], &byte, 1) < 0) {
    // Full: the reader has plenty to wake up for.
  }
  errno = saved;
}

void drain() {
  char bytes[64];
  while (::read(g_pipe[0], bytes, sizeof bytes) > 0) {
  }
}

}  // namespace

void Interrupt::install() {
  if (::pipe2(g_pipe, O_CLOEXEC | O_NONBLOCK) != 0) return;
  struct sigaction action{};
  action.sa_handler = handle;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

CancelToken& Interrupt::token() { return g_token; }
bool Interrupt::terminated() { return g_terminated.load(); }

bool Interrupt::wait(TimePoint until) {
  while (!g_token.cancelled()) {
    const auto left = until == TimePoint::max() ? Duration(std::chrono::hours(1))
                                                : until - std::chrono::steady_clock::now();
    if (left <= Duration::zero()) return false;
    const int64_t ms = std::min<int64_t>(static_cast<int64_t>(milliseconds(left)) + 1, 3'600'000);
    pollfd watch{g_pipe[0], POLLIN, 0};
    ::poll(&watch, 1, static_cast<int>(ms));
    drain();
  }
  return true;
}

bool Interrupt::wait_for_stdin() {
  while (true) {
    if (g_token.cancelled()) {
      drain();
      return false;
    }
    pollfd watch[2] = {{0, POLLIN, 0}, {g_pipe[0], POLLIN, 0}};
    if (::poll(watch, 2, -1) < 0 && errno != EINTR) return true;
    if (watch[1].revents) drain();
    if (g_token.cancelled()) return false;
    if (watch[0].revents) return true;
  }
}

}  // namespace meadow::apps
