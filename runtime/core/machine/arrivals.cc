// Leases of pages that are under way.
#include <utility>

#include "runtime/core/machine/core_impl.h"

namespace sluice::core {

void Core::Impl::On(const TaskUnderWay& event) {
  const auto found = tasks_.find(event.task);
  if (found == tasks_.end()) return;
  const Task& task = found->second;
  const bool brings = task.kind == TaskKind::kCopy ||
                      (task.kind == TaskKind::kFill && task.fill != FillKind::kUndefined);
  if (!brings) return;
  PageCopy& copy = page(task.page).copies[task.target];
  copy.under_way = true;
  copy.mapped = task.map;
  Recheck(task.page);
}

void Core::Impl::On(const GrantUnderWay& event) {
  const auto found = tickets_.find(event.ticket);
  if (found == tickets_.end() || found->second->granted) return;
  Ticket& ticket = *found->second;
  ticket.takes_under_way = true;
  for (const Need& need : ticket.needs) Recheck(need.request.page);
}

/// Leases of the page that ended before it had arrived, or failed to.
void Core::Impl::ReleaseLate(PageIndex index) {
  const auto found = late_releases_.find(index);
  if (found == late_releases_.end()) return;
  const std::vector<TicketNumber> tickets = std::move(found->second);
  late_releases_.erase(found);
  for (const TicketNumber ticket : tickets) On(Release{ticket, {index}});
}

/// The page did not arrive in `tier`, where its lease may have written: neither what was written
/// nor the bytes of before are its content.
void Core::Impl::LoseWritten(PageIndex index, TierIndex tier) {
  PinForWrite(index, tier);
  ReleaseLate(index);
  Page& p = page(index);
  if (!p.exists || !p.content) return;  // a discard that waited for the lease came
  p.copies[tier].state = CopyState::kPlaced;
  LoseContent(index, tier);
}

}  // namespace sluice::core
