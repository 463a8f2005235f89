#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "runtime/core/actions.h"
#include "runtime/core/events.h"
#include "tests/runtime/core/driver/frame_model.h"
#include "tests/runtime/core/driver/shadow_model.h"
#include "tests/runtime/core/driver/verdict.h"

namespace sluice::core {

/// State of an AcquireAll, as the driver knows it.
struct SimTicket {
  Acquire acquire;
  bool granted = false;
  bool failed = false;
  bool cancelled = false;
  std::vector<FrameIndex> frames;
  std::vector<std::uint32_t> leases_left;  ///< leases left of each request
  bool open() const { return !granted && !failed; }
};

/// The tickets of a run and the leases that they hold. Grants and releases take effect on the
/// frames and the shadow model. Every answer of the core is checked.
class SimTickets {
 public:
  SimTickets(FrameModel* frames, ShadowModel* shadow, Verdict* verdict)
      : frames_(frames), shadow_(shadow), verdict_(verdict) {}

  void Request(const Acquire& acquire);
  void NoteCancel(TicketNumber ticket);
  /// Ends leases. A release of a ticket that is not granted has no effect.
  void EndLeases(const Release& release);

  void Grant(const GrantTicket& grant);
  /// `faults`: number of tasks that have failed so far.
  void Fail(const FailTicket& fail, std::uint64_t faults);

  const std::map<TicketNumber, SimTicket>& all() const { return tickets_; }
  std::set<PageIndex> PagesHeld(OpNumber op, TierIndex tier) const;
  /// Whether the op waits for a ticket, or for an earlier op of its lane that does.
  bool Waiting(OpNumber op) const;
  /// Whether an op holds pages and does not wait: it will go on and release them.
  bool AnyRuns() const;
  /// Checks that no ticket waits.
  void CheckAnswered();

  std::uint64_t grant_count() const { return grants_; }
  std::uint64_t failure_count(TicketFailure reason) const;

 private:
  void CheckReason(const FailTicket& fail, const SimTicket& ticket, std::uint64_t faults);
  void CheckTooLarge(const FailTicket& fail, const SimTicket& ticket);
  void CheckDeadlock(const FailTicket& fail);

  FrameModel* frames_;
  ShadowModel* shadow_;
  Verdict* verdict_;
  std::map<TicketNumber, SimTicket> tickets_;
  std::map<OpNumber, LaneIndex> lanes_;
  std::set<OpNumber> nested_;
  std::map<OpNumber, std::set<TicketNumber>> waiting_;  ///< open tickets
  std::map<OpNumber, std::set<TicketNumber>> holding_;  ///< granted tickets with leases
  std::uint64_t grants_ = 0;
  std::map<TicketFailure, std::uint64_t> failures_;
};

}  // namespace sluice::core
