#include "tools/interrupt.h"

#include <atomic>

namespace sluice::tools {
namespace {

// A signal handler can reach nothing but a global; InterruptWatch owns it.
std::atomic<int> signal_seen = 0;
static_assert(std::atomic<int>::is_always_lock_free);

void SetAction(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

void NoteSignal(int signal) {
  signal_seen.store(signal);
  // The second signal, whichever it is, meets the default action.
  for (const int each : kInterrupts) SetAction(each, SIG_DFL);
}

}  // namespace

InterruptWatch::InterruptWatch() {
  signal_seen.store(0);
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

}  // namespace sluice::tools
