#pragma once

#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "runtime/core/actions.h"
#include "runtime/core/events.h"
#include "runtime/core/state/page.h"

namespace sluice::core {

struct Machine;

/// Tickets from their acquire to their end: locks of pages in the order of arrival, grants,
/// releases and failures. Threads: externally synchronised.
class Tickets {
 public:
  explicit Tickets(Machine& machine) : m_(machine) {}

  void On(const Acquire& event);
  void On(const Cancel& event);
  void On(const Release& event);
  void On(const GrantUnderWay& event);
  void RefreshLocks(PageIndex index);
  void MarkReady(Need& need, bool ready);
  bool IsReady(const Need& need) const;
  void Recheck(PageIndex index);
  void Grant(Ticket& ticket);
  void PinForWrite(PageIndex index, TierIndex tier);
  void FailTicketWith(Ticket& ticket, FailTicket failure);
  void ReleaseLate(PageIndex index);

 private:
  bool RefuseTooLarge(const Acquire& event);
  bool RefuseLost(const Acquire& event);
  void QueueNeeds(std::unique_ptr<Ticket> ticket);
  void Dequeue(Ticket& ticket);
  void NoteHead();
  void SetHeadWants(const Ticket& ticket, bool wants);
  void Forget(TicketNumber number);
  void CountPrefetch(Page& p, TierIndex tier, bool ready);

  Machine& m_;
  Ticket* head_ = nullptr;  ///< first ticket whose wants its pages know
  /// Tickets that release the page once it has arrived, one for each lease.
  absl::flat_hash_map<PageIndex, std::vector<TicketNumber>> late_releases_;
};

}  // namespace sluice::core
