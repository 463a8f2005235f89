#include "tools/train/interrupt.h"

#include <signal.h>

#include <atomic>

namespace sluice::tools {
namespace {

// A signal handler can reach nothing but a global; InterruptWatch owns it.
std::atomic<bool> signal_seen = false;
static_assert(std::atomic<bool>::is_always_lock_free);

void NoteSignal(int) { signal_seen.store(true); }

void Install(void (*handler)(int), int flags) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
}

}  // namespace

InterruptWatch::InterruptWatch() {
  signal_seen.store(false);
  // SA_RESETHAND: the second signal meets the default action.
  Install(NoteSignal, SA_RESTART | SA_RESETHAND);
}

InterruptWatch::~InterruptWatch() { Install(SIG_DFL, 0); }

bool InterruptWatch::interrupted() const { return signal_seen.load(); }

}  // namespace sluice::tools
