#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <limits>

#include "runtime/core/types.h"
#include "runtime/sim/simulator/machine.h"
#include "runtime/sim/simulator/sim_observer.h"

namespace sluice::sim {

/// A path of a link in virtual time. Each direction makes one transfer after the other, in the
/// order in which they were started. If both directions have work, and more than the path carries,
/// both are slowed in the same proportion.
class PathModel {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  /// A transfer that has left the path, and the time at which it is complete, after the latency.
  struct Finished {
    SimTransfer transfer;
    double complete_s = 0;
  };

  explicit PathModel(const MachinePath& path);

  /// Starts a transfer. REQUIRES: `now` is no earlier than in any call before.
  void Start(core::LinkDirection direction, core::TaskNumber task, std::uint64_t bytes, double now);
  /// Time at which the next transfer leaves; kNever when there is none.
  double next() const { return next_; }
  /// Takes the transfer that leaves at next(). REQUIRES: there is one.
  Finished Finish();
  /// Passes the time. REQUIRES: `now` is no earlier than in any call before, and not after next().
  void PassTime(double now);

  /// Time at which a transfer that is started now would be complete, if no other were started
  /// later. The time now is that of the last call.
  double WouldComplete(core::LinkDirection direction, std::uint64_t bytes) const;

  /// Seconds, up to the last call, in which the direction had work.
  double busy(core::LinkDirection direction) const { return way(direction).busy; }
  std::uint64_t bytes(core::LinkDirection direction) const { return way(direction).bytes; }

 private:
  struct QueuedPage {
    core::TaskNumber task = 0;
    std::uint64_t bytes = 0;
    double bytes_left = 0;
    double begin_s = 0;  ///< time at which the first of the queue came there
  };
  struct OneWay {
    double rate = 0;
    /// Bytes' worth of the time that a transfer occupies the path for besides its bytes.
    double setup = 0;
    double behind = 0;  ///< seconds of the pages that wait behind the first
    double busy = 0;
    std::uint64_t bytes = 0;
    std::deque<QueuedPage> queue;
  };

  OneWay& way(core::LinkDirection direction) { return ways_[static_cast<std::size_t>(direction)]; }
  const OneWay& way(core::LinkDirection direction) const {
    return ways_[static_cast<std::size_t>(direction)];
  }
  double Share() const;
  double SecondsLeft(core::LinkDirection direction, std::uint64_t more) const;
  void FindNext();

  std::array<OneWay, 2> ways_;
  const double latency_;
  double slowdown_ = 1;  ///< slowdown of each direction while both have work
  double now_ = 0;
  double next_;
  std::size_t next_way_ = 0;
};

}  // namespace sluice::sim
