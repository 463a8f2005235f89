// Where a page's bytes can be read.
#include <algorithm>

#include "runtime/core/machine/core_impl.h"

namespace sluice::core {
namespace {

CopyPlace PlaceWithoutCopy(const Page& p) {
  if (p.lost) return {};
  if (!p.content) return {.kind = CopyPlace::Kind::kZeros};
  return p.file_home ? CopyPlace{.kind = CopyPlace::Kind::kFile} : CopyPlace{};
}

}  // namespace

NewestCopy Core::Impl::FindNewest(PageIndex index, TierIndex first) const {
  if (index >= pages_.size() || !pages_[index].exists) return {};
  const Page& p = pages_[index];
  NewestCopy newest{.place = PlaceWithoutCopy(p)};
  newest.dies = std::any_of(p.queue.begin(), p.queue.end(), [](const Need* need) {
    return need->ticket->kind != TicketKind::kAcquire;
  });
  const auto take = [&](TierIndex tier) {
    const bool valid = p.copies[tier].state == CopyState::kValid;
    if (valid) newest.place = {CopyPlace::Kind::kFrame, tier, p.copies[tier].frame};
    return valid;
  };
  for (TierIndex tier = first; tier < tiers_.size(); ++tier) {
    if (take(tier)) return newest;
  }
  for (TierIndex tier = first; tier > 0; --tier) {
    if (take(static_cast<TierIndex>(tier - 1))) return newest;
  }
  return newest;
}

}  // namespace sluice::core
