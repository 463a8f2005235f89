#pragma once

#include <signal.h>

namespace sluice::io {

/// Keeps every asynchronous signal from the calling thread. An I/O thread must not run a handler of
/// the program. SIGXFSZ, which the kernel sends to the thread that writes past RLIMIT_FSIZE, must
/// not kill it either. The write fails with EFBIG while the signal is blocked.
inline void BlockAllSignals() {
  sigset_t all;
  sigfillset(&all);
  for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP}) sigdelset(&all, fault);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

}  // namespace sluice::io
