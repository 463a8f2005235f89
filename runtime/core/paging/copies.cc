#include "runtime/core/paging/copies.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "runtime/core/machine/machine.h"

namespace sluice::core {
namespace {

CopyPlace PlaceWithoutCopy(const Page& p) {
  if (p.lost) return {};
  if (!p.content) return {.kind = CopyPlace::Kind::kZeros};
  return p.file_home ? CopyPlace{.kind = CopyPlace::Kind::kFile} : CopyPlace{};
}

/// Whether the page's content is in the tier alone. A page that passes a tier on its way up may
/// turn back before it arrives, and then leaves nothing there.
bool IsOnlyIn(const Page& p, TierIndex tier) {
  if (!p.content || p.file_home || p.reproducible || p.dying || Dies(p)) return false;
  for (TierIndex t = 0; t < kTiersMax; ++t) {
    const PageCopy& copy = p.copies[t];
    const bool passes = copy.transit && copy.transit_direction == LinkDirection::kIn;
    if ((copy.state == CopyState::kValid && !passes) != (t == tier)) return false;
  }
  return true;
}

}  // namespace

void Copies::On(const AbandonCopies& event) {
  const TierIndex tier = m_.last_tier();
  for (const FrameIndex frame : event.frames) {
    const PageIndex index = m_.tiers[tier].pool.owner(frame);
    if (index == kNoPage || m_.page(index).copies[tier].frame != frame) continue;
    m_.page(index).copies[tier].doomed = true;
    m_.facts.Update(index);
  }
}

std::vector<PageIndex> Copies::PagesOnlyIn(const std::vector<FrameIndex>& frames) const {
  const TierIndex tier = m_.last_tier();
  std::vector<PageIndex> only;
  for (const FrameIndex frame : frames) {
    const PageIndex index = m_.tiers[tier].pool.owner(frame);
    if (index == kNoPage || m_.pages[index].copies[tier].frame != frame) continue;
    if (IsOnlyIn(m_.pages[index], tier)) only.push_back(index);
  }
  return only;
}

void Copies::SetDoomedAside(PageIndex index) {
  Page& p = m_.page(index);
  PageCopy& copy = p.copies[m_.last_tier()];
  SLUICE_CHECK(p.stale_frame == kNoFrame, "a page has at most one stale slot");
  p.stale_frame = copy.frame;
  p.stale_holds = true;
  copy = PageCopy{};
}

void Copies::RestoreDoomed(PageIndex index) {
  Page& p = m_.page(index);
  if (!std::exchange(p.stale_holds, false)) return;
  PageCopy& copy = p.copies[m_.last_tier()];
  copy.frame = std::exchange(p.stale_frame, kNoFrame);
  copy.state = CopyState::kValid;
  copy.doomed = true;
}

NewestCopy Copies::FindNewest(PageIndex index, TierIndex first) const {
  if (index >= m_.pages.size() || !m_.pages[index].exists) return {};
  const Page& p = m_.pages[index];
  NewestCopy newest{.place = PlaceWithoutCopy(p)};
  newest.dies = IsToBeKilled(p);
  const auto take = [&](TierIndex tier) {
    const bool valid = p.copies[tier].state == CopyState::kValid;
    if (valid) newest.place = {CopyPlace::Kind::kFrame, tier, p.copies[tier].frame};
    return valid;
  };
  for (TierIndex tier = first; tier < m_.tiers.size(); ++tier) {
    if (take(tier)) return newest;
  }
  for (TierIndex tier = first; tier > 0; --tier) {
    if (take(static_cast<TierIndex>(tier - 1))) return newest;
  }
  return newest;
}

void Copies::PinForWrite(PageIndex index, TierIndex tier) {
  Page& p = m_.page(index);
  SLUICE_CHECK(p.tasks == 0 && p.pins == 1,
               "I4: a page under a write lease is nowhere else in use");
  for (TierIndex t = 0; t < m_.tiers.size(); ++t) {
    if (t == tier || p.copies[t].state == CopyState::kNone) continue;
    if (t == m_.last_tier()) {
      // The old slot is kept until a newer generation is acknowledged.
      SLUICE_CHECK(p.stale_frame == kNoFrame, "a page has at most one stale slot");
      p.stale_frame = p.copies[t].frame;
      p.copies[t] = PageCopy{};
    } else {
      m_.frames.DropCopy(index, t);
    }
  }
  SLUICE_CHECK(!p.read_only, "I6: a page that is only read is never written");
  if (!p.written()) ++m_.tiers[p.lowest].written;
  ++p.generation;
  p.copies[tier].state = CopyState::kValid;
  p.content = true;
  p.lost = false;
  p.file_home = false;
}

std::optional<TierIndex> Copies::BestSource(const Page& p, TierIndex target) const {
  for (TierIndex distance = 1; distance < m_.tiers.size(); ++distance) {
    if (distance <= target && p.copies[target - distance].state == CopyState::kValid) {
      return static_cast<TierIndex>(target - distance);
    }
    const std::size_t below = std::size_t{target} + distance;
    if (below < m_.tiers.size() && p.copies[below].state == CopyState::kValid) {
      return static_cast<TierIndex>(below);
    }
  }
  return std::nullopt;
}

}  // namespace sluice::core
