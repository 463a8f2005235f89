#pragma once

#include <signal.h>

#include <array>
#include <chrono>
#include <vector>

namespace sluice::tools {

/// The signals that ask for an end: Ctrl-C, kill(1) and a terminal that goes away.
inline constexpr std::array kInterrupts = {SIGINT, SIGTERM, SIGHUP};

/// The signals of batch systems that ask for an end, too: CPU time is over, and SGE's notice.
inline constexpr std::array kBatchInterrupts = {SIGXCPU, SIGUSR2};

/// The signal that asks for a save.
inline constexpr int kSaveSignal = SIGUSR1;

/// Every signal that a watch may answer.
const std::vector<int>& WatchedSignals();

/// Time after the first signal within which others do not count as a second one.
inline constexpr std::chrono::nanoseconds kSameSignal = std::chrono::milliseconds(100);

/// A watch over signals. While it lives, the first signal that asks for an end is only noted, and
/// answered on standard error. The second one ends the process, as without the watch. A SIGHUP that
/// is ignored stays so. There is at most one watch at a time.
class InterruptWatch {
 public:
  struct Options {
    /// Signals that the watch answers. In kOfBatchSystems kBatchInterrupts ask for an end, too, and
    /// kSaveSignal for a save. A SIGXCPU that follows is no second signal: the kernel repeats it
    /// every second.
    enum class Signals { kUsual, kOfBatchSystems } signals = Signals::kUsual;
    /// Time from which the watch notes signals. With kLater, until Arm, the first signal ends the
    /// process, and a request for a save is only answered on standard error.
    enum class Armed { kNow, kLater } armed = Armed::kNow;
  };
  InterruptWatch() : InterruptWatch(Options()) {}
  explicit InterruptWatch(const Options& options);
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  void Arm();

  bool interrupted() const { return signal() != 0; }
  /// The signal that was noted; 0: none.
  int signal() const;
  /// Whether a save was asked for since the last call.
  bool TakeSaveRequest() const;

 private:
  void Set(int signal, void (*handler)(int));

  struct Before {
    int signal = 0;
    struct sigaction action = {};
  };
  std::vector<Before> before_;
};

/// A guard for commands that have something to give back. While it lives, a reader of standard
/// output that goes away is an error of the next write, and no signal. There is at most one guard
/// at a time.
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
