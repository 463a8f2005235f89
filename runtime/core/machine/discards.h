#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/core/events.h"
#include "runtime/core/state/page.h"

namespace sluice::core {

struct ResidencyMachine;

/// Discards and frees of pages. Threads: externally synchronised.
class Discards {
 public:
  explicit Discards(ResidencyMachine& machine) : m_(machine) {}

  void On(const DiscardPages& event);
  void On(const FreePages& event);
  /// Ends the content of a page with a discard or free at the head of its queue, once no task
  /// touches it. Returns whether it has.
  bool FinishKill(PageIndex index);

  /// Forgets discards and frees that have come to their end.
  void ForgetFinished();

 private:
  void Kill(TicketKind kind, PageIndex first_page, std::uint32_t pages);
  void KillContent(PageIndex index);

  ResidencyMachine& m_;
  std::vector<std::unique_ptr<Ticket>> kills_;
};

}  // namespace sluice::core
