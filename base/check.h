#pragma once

/// Invariant checks that stay on in release builds: a violated invariant stops the program with a
/// message, because going on could write wrong bytes.

namespace sluice::base {

/// Function that gets the text of a failed check before the program stops. It may dump state.
/// Threads: any thread may call it, at most once per failed check.
using CheckObserver = void (*)(void* context, const char* message);

/// Registers `observer` for the calling thread (null removes it). The core thread uses this to hand
/// its event history to the log sink when an invariant breaks.
void SetCheckObserver(CheckObserver observer, void* context);

/// Prints the message to standard error, tells the observer and aborts.
[[noreturn]] void CheckFailed(const char* file,
                              int line,
                              const char* condition,
                              const char* explanation);

}  // namespace sluice::base

/// Stops the program when `condition` is false. `explanation` cites the invariant, for example
/// "I3: a pinned frame is never evicted" (numbers are those of ARCHITECTURE.md).
#define SLUICE_CHECK(condition, explanation) \
  (static_cast<bool>(condition)              \
       ? static_cast<void>(0)                \
       : ::sluice::base::CheckFailed(__FILE__, __LINE__, #condition, explanation))
