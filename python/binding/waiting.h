#pragma once

#include <nanobind/nanobind.h>

#include <utility>

#include "sluice/op.h"

/// Calls that may block. None of them holds the GIL meanwhile.
///
/// Note [Leaving]: Python up to 3.13 ends a daemon thread that asks for the GIL of an interpreter
/// which is being finalised by pthread_exit. The exit unwinds the C++ frames below it and aborts
/// the process. So from Leave on, which runs at exit, every other thread stops for ever before it
/// asks.

namespace sluice::python {

/// The time without the GIL. REQUIRES: the GIL.
class GilReleased {
 public:
  GilReleased();
  ~GilReleased();
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;

 private:
  PyThreadState* const thread_;
};

/// Runs `call` without the GIL. REQUIRES: the GIL.
template <typename Call>
auto WithoutGil(Call&& call) {
  const GilReleased released;
  return std::forward<Call>(call)();
}

/// The interpreter is about to end, by this thread: see Note [Leaving]. REQUIRES: the GIL.
void Leave();
/// Returns in the thread that leaves, or if none does; stops any other for ever. REQUIRES: the GIL.
void StopIfLeaving();

/// Waits for the ticket, and lets the signal handlers of Python run meanwhile: an exception of
/// theirs (KeyboardInterrupt) is thrown. Errors: as Ticket::Wait. REQUIRES: the GIL.
absl::Status WaitWithSignals(Ticket& ticket, Ticket::Deadline deadline);

}  // namespace sluice::python
