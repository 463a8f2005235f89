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
std::atomic<std::int64_t> first_at = 0;  ///< time of the first signal; 0: none has come
std::atomic<bool> save_asked = false;
std::atomic<bool> armed = false;  ///< true if an end is noted; else it comes at once
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

/// Prefix that wipes the line of progress on a terminal.
constexpr std::string_view kWipe = "\r\x1b[K";
constexpr std::string_view kEndOnTerminal =
    "\r\x1b[Ksluice: finishing what has begun; once more to stop at once\n";
constexpr std::string_view kTooEarlyOnTerminal =
    "\r\x1b[Ksluice: SIGUSR1: there is nothing to save yet; the run goes on\n";

void Answer(std::string_view answer) {
  const int before = errno;
  if (!on_terminal.load()) answer.remove_prefix(kWipe.size());
  // The answer is lost where standard error takes nothing.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, answer.data(), answer.size());
  errno = before;
}

std::int64_t Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);  // may be called by a handler
  return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

/// Ends the process by the signal. One whose default is a core, or that a process of number 1 does
/// not get by default, ends it by its exit code.
void EndNow(int signal) {
  if (signal != SIGXCPU) {
    SetAction(signal, SIG_DFL);
    raise(signal);
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, signal);
    pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
  }
  constexpr int kSignalled = 128;
  _exit(kSignalled + signal);
}

void NoteEnd(int signal) {
  if (!armed.load()) EndNow(signal);
  // The threads that handle two signals may do so at the same time: one of them is the first.
  const std::int64_t now = Now();
  std::int64_t first = 0;
  if (first_at.compare_exchange_strong(first, now)) {
    signal_seen.store(signal);
    Answer(kEndOnTerminal);
    return;
  }
  // A second signal that comes at once counts as the first: timeout(1) and others signal the
  // process, then its group.
  if (now - first < kSameSignal.count() || signal == SIGXCPU) return;
  EndNow(signal);
}

void NoteSave(int /*signal*/) {
  if (armed.load()) {
    save_asked.store(true);
  } else {
    Answer(kTooEarlyOnTerminal);
  }
}

}  // namespace

const std::vector<int>& WatchedSignals() {
  static const std::vector<int> kAll = [] {
    std::vector<int> signals(kInterrupts.begin(), kInterrupts.end());
    signals.insert(signals.end(), kBatchInterrupts.begin(), kBatchInterrupts.end());
    signals.push_back(kSaveSignal);
    return signals;
  }();
  return kAll;
}

InterruptWatch::InterruptWatch(const Options& options) {
  signal_seen.store(0);
  first_at.store(0);
  save_asked.store(false);
  armed.store(options.armed == Options::Armed::kNow);
  on_terminal.store(isatty(STDERR_FILENO) == 1);
  for (const int signal : kInterrupts) Set(signal, NoteEnd);
  if (options.signals == Options::Signals::kUsual) return;
  for (const int signal : kBatchInterrupts) Set(signal, NoteEnd);
  Set(kSaveSignal, NoteSave);
}

void InterruptWatch::Set(int signal, void (*handler)(int)) {
  Before before{.signal = signal};
  sigaction(signal, nullptr, &before.action);
  // nohup(1) has SIGHUP ignored, and means it.
  const bool unwanted = signal == SIGHUP && before.action.sa_handler == SIG_IGN;
  if (!unwanted) SetAction(signal, handler);
  before_.push_back(before);
}

void InterruptWatch::Arm() { armed.store(true); }

InterruptWatch::~InterruptWatch() {
  for (const Before& before : before_) sigaction(before.signal, &before.action, nullptr);
}

int InterruptWatch::signal() const { return signal_seen.load(); }

bool InterruptWatch::TakeSaveRequest() const { return save_asked.exchange(false); }

BrokenPipeIsAnError::BrokenPipeIsAnError() {
  sigaction(SIGPIPE, nullptr, &before_);
  SetAction(SIGPIPE, SIG_IGN);
}

BrokenPipeIsAnError::~BrokenPipeIsAnError() { sigaction(SIGPIPE, &before_, nullptr); }

}  // namespace sluice::tools
