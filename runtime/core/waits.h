#pragma once

#include <chrono>
#include <cstdint>

#include "runtime/core/types.h"

namespace sluice::core {

/// Cause of a ticket's wait: the end of a page-out (kWrite), or anything else, as a rule a page-in.
enum class WaitFor : std::uint8_t { kRead, kWrite };

struct TicketWait {
  TicketNumber ticket = 0;
  LaneIndex lane = 0;
  WaitFor waits_for = WaitFor::kRead;
  friend bool operator==(const TicketWait&, const TicketWait&) = default;
};

/// Divides the time that a thread is blocked by the causes that its ticket waits for. The caller
/// gives the time, which never goes back. Threads: externally synchronised.
class WaitSplit {
 public:
  using Time = std::chrono::nanoseconds;  ///< time since any moment

  /// Begin and End: the thread begins, and ends, to be blocked.
  void Begin(Time now) {
    waiting_ = true;
    since_ = now;
  }
  void End(Time now) {
    Count(now);
    waiting_ = false;
  }
  void Change(WaitFor waits_for, Time now) {
    Count(now);
    waits_for_ = waits_for;
  }

  WaitFor waits_for() const { return waits_for_; }
  /// Time up to the last call.
  Time of(WaitFor waits_for) const { return waits_for == WaitFor::kRead ? read_ : write_; }

 private:
  void Count(Time now) {
    if (waiting_) (waits_for_ == WaitFor::kRead ? read_ : write_) += now - since_;
    since_ = now;
  }

  WaitFor waits_for_ = WaitFor::kRead;
  bool waiting_ = false;
  Time since_{};
  Time read_{};
  Time write_{};
};

}  // namespace sluice::core
