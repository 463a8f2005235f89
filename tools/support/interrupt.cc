#include "tools/support/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <string_view>

namespace sluice::tools {
namespace {

// A signal handler can reach nothing but a global; InterruptWatch owns it.
std::atomic<int> signal_seen = 0;
std::atomic<std::int64_t> first_at = 0;  ///< when that came; 0: none has
static_assert(std::atomic<std::int64_t>::is_always_lock_free);
std::atomic<bool> on_terminal = false;
static_assert(std::atomic<int>::is_always_lock_free);

void SetAction(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

/// On a terminal the line of progress is wiped first.
constexpr std::string_view kWipe = "\r\x1b[K";
constexpr std::string_view kAnswerOnTerminal =
    "\r\x1b[Ksluice: finishing what has begun; once more to stop at once\n";

void Answer() {
  const int before = errno;
  std::string_view answer = kAnswerOnTerminal;
  if (!on_terminal.load()) answer.remove_prefix(kWipe.size());
  // It is lost where standard error takes nothing.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, answer.data(), answer.size());
  errno = before;
}

std::int64_t Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);  // may be called by a handler
  return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

void NoteSignal(int signal) {
  // The threads that handle two signals may do so at the same time: one of them is the first.
  const std::int64_t now = Now();
  std::int64_t first = 0;
  if (first_at.compare_exchange_strong(first, now)) {
    signal_seen.store(signal);
    Answer();
    return;
  }
  // One that comes at once is the same: timeout(1) and others signal the process, then its group.
  if (now - first < kSameSignal.count()) return;
  SetAction(signal, SIG_DFL);
  raise(signal);
}

}  // namespace

InterruptWatch::InterruptWatch() {
  signal_seen.store(0);
  first_at.store(0);
  on_terminal.store(isatty(STDERR_FILENO) == 1);
  for (std::size_t i = 0; i < kInterrupts.size(); ++i) {
    sigaction(kInterrupts[i], nullptr, &before_[i]);
    // nohup(1) has SIGHUP ignored, and means it.
    const bool unwanted = kInterrupts[i] == SIGHUP && before_[i].sa_handler == SIG_IGN;
    if (!unwanted) SetAction(kInterrupts[i], NoteSignal);
  }
}

InterruptWatch::~InterruptWatch() {
  for (std::size_t i = 0; i < kInterrupts.size(); ++i) {
    sigaction(kInterrupts[i], &before_[i], nullptr);
  }
}

int InterruptWatch::signal() const { return signal_seen.load(); }

BrokenPipeIsAnError::BrokenPipeIsAnError() {
  sigaction(SIGPIPE, nullptr, &before_);
  SetAction(SIGPIPE, SIG_IGN);
}

BrokenPipeIsAnError::~BrokenPipeIsAnError() { sigaction(SIGPIPE, &before_, nullptr); }

}  // namespace sluice::tools
