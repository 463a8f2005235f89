#pragma once

#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "runtime/core/actions.h"
#include "runtime/core/events.h"
#include "runtime/core/state/page.h"

namespace sluice::core {

struct ResidencyMachine;

/// Tickets from their acquire to their end: locks of pages in the order of arrival, grants,
/// releases and failures. Threads: externally synchronised.
class Tickets {
 public:
  explicit Tickets(ResidencyMachine& machine) : m_(machine) {}

  void On(const Acquire& event);
  void On(const Cancel& event);
  void On(const Release& event);
  void On(const GrantUnderWay& event);
  /// Says anew which needs of the page are locked. A need is locked when no earlier one of its page
  /// conflicts: any number of readers, or one writer.
  void RefreshLocks(PageIndex index);
  /// Counts the need as ready or not, and has its ticket look at it or not.
  void MarkReady(Need& need, bool ready);
  /// Returns whether the page is as the need wants it, and the need is first in turn.
  bool IsReady(const Need& need) const;
  /// Looks again at everybody who waits for the page, after anything about it has changed.
  void Recheck(PageIndex index);
  /// Pins the pages of a ticket whose needs are all ready, and tells its op.
  void Grant(Ticket& ticket);
  /// Ends a ticket that was not granted.
  void FailTicketWith(Ticket& ticket, FailTicket failure);
  /// Ends leases of the page that were given back before it had arrived, or failed to.
  void ReleaseLate(PageIndex index);

 private:
  bool RefuseTooLarge(const Acquire& event);
  bool RefuseLost(const Acquire& event);
  void Queue(Need& need);
  bool GoesBeforeWriters(const Need& need);
  void QueueNeeds(std::unique_ptr<Ticket> ticket);
  void Dequeue(Ticket& ticket);
  void NoteHead();
  void SetHeadWants(const Ticket& ticket, bool wants);
  void Forget(TicketNumber number);
  void CountPrefetch(Page& p, TierIndex tier, bool ready);

  ResidencyMachine& m_;
  Ticket* head_ = nullptr;  ///< first ticket whose wants its pages know
  /// Tickets that release the page once it has arrived, one for each lease.
  absl::flat_hash_map<PageIndex, std::vector<TicketNumber>> late_releases_;
};

}  // namespace sluice::core
