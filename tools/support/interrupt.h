#pragma once

#include <signal.h>

#include <array>
#include <chrono>

namespace sluice::tools {

/// The signals that ask for an end: Ctrl-C, kill(1) and a terminal that goes away.
inline constexpr std::array kInterrupts = {SIGINT, SIGTERM, SIGHUP};

/// Signals that come within this of the first one are no second.
inline constexpr std::chrono::nanoseconds kSameSignal = std::chrono::milliseconds(100);

/// While it lives, the first of kInterrupts is only noted, and answered on standard error; the
/// second one ends the process, as without it. A SIGHUP that is ignored stays so. At most one at a
/// time.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  bool interrupted() const { return signal() != 0; }
  /// The one that was noted; 0: none.
  int signal() const;

 private:
  std::array<struct sigaction, kInterrupts.size()> before_;
};

/// While it lives, a reader of standard output that goes away is an error of the next write and no
/// signal: for a command that has something to give back. At most one at a time.
class BrokenPipeIsAnError {
 public:
  BrokenPipeIsAnError();
  ~BrokenPipeIsAnError();
  BrokenPipeIsAnError(const BrokenPipeIsAnError&) = delete;
  BrokenPipeIsAnError& operator=(const BrokenPipeIsAnError&) = delete;

 private:
  struct sigaction before_ = {};
};

}  // namespace sluice::tools
