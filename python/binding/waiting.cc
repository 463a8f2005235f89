#include "python/binding/waiting.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

namespace sluice::python {
namespace {

/// The time after which a waiting thread looks for signals.
constexpr std::chrono::milliseconds kSignalInterval{50};

/// The thread that leaves; 0: none. A state of the process, as the interpreter and its end are.
constinit std::atomic<unsigned long> leaving_thread{0};
/// Threads that have seen no leaving thread and do not have the GIL yet.
constinit std::atomic<int> threads_returning{0};

bool OthersLeave() {
  const unsigned long leaving = leaving_thread;
  return leaving != 0 && leaving != PyThread_get_thread_ident();
}

[[noreturn]] void StopForEver() {
  while (true) pause();
}

}  // namespace

GilReleased::GilReleased() : thread_(PyEval_SaveThread()) {}

GilReleased::~GilReleased() {
  ++threads_returning;
  if (OthersLeave()) {
    --threads_returning;
    StopForEver();
  }
  PyEval_RestoreThread(thread_);
  --threads_returning;
}

void Leave() {
  leaving_thread = PyThread_get_thread_ident();
  // Each returning thread gets the GIL once, and then stops at its next call.
  PyThreadState* const thread = PyEval_SaveThread();
  while (threads_returning > 0) std::this_thread::yield();
  PyEval_RestoreThread(thread);
}

void StopIfLeaving() {
  if (!OthersLeave()) return;
  (void)PyEval_SaveThread();
  StopForEver();
}

absl::Status WaitWithSignals(Ticket& ticket, Ticket::Deadline deadline) {
  if (ticket.Ready()) return ticket.Wait();
  while (true) {
    const Ticket::Deadline now = std::chrono::steady_clock::now();
    const absl::Status waited =
        WithoutGil([&] { return ticket.Wait(std::min(deadline, now + kSignalInterval)); });
    if (!absl::IsDeadlineExceeded(waited) || now >= deadline) return waited;
    if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
  }
}

}  // namespace sluice::python
