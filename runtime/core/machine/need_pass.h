#pragma once

#include "runtime/core/state/need_queue.h"
#include "runtime/core/state/page.h"

namespace sluice::core {

struct ResidencyMachine;

/// One look at all that a ticket lacks. Threads: externally synchronised.
class NeedPass {
 public:
  explicit NeedPass(ResidencyMachine& machine) : m_(machine) {}

  /// Moves on every need of the ticket that is not under way; grants it when all are ready.
  void WorkOn(Ticket& ticket);

 private:
  void WorkOn(NeedQueue::Ordinal ordinal, Ticket& ticket, NeedQueue::Pass* pass);
  bool IsDry(TierIndex tier, const Claim& claim) const;
  bool StepsAlone(const PageRequest& request) const;
  NeedQueue::Group GroupOf(const PageRequest& request) const;
  void CloseWhatIsBarred(TierIndex wanted, const Claim& claim, NeedQueue::Pass* pass);
  template <typename Found>
  bool AnyPassedOver(const Ticket& ticket,
                     const NeedQueue::Pass& pass,
                     TierIndex tier,
                     Found found);
  void NotePassedOver(const Ticket& ticket, const NeedQueue::Pass& pass, TierIndex tier);

  ResidencyMachine& m_;
};

}  // namespace sluice::core
