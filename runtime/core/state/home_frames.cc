#include "runtime/core/state/home_frames.h"

#include <algorithm>

namespace sluice::core {
namespace {

/// Part of the pages that came which may have moved beyond those expected to.
constexpr std::uint64_t kMovedShare = 20;

/// Choices after which the iterations of a plan have settled.
constexpr std::uint32_t kChoicesMax = 8;

/// Events of an iteration that are kept. Homes are not chosen by a longer one, nor if very many
/// pages come and go between iterations.
constexpr std::size_t kEventsMax = std::size_t{1} << 20;

std::uint64_t CountComings(std::span<const FrameEvent> events) {
  return static_cast<std::uint64_t>(std::count_if(
      events.begin(), events.end(), [](const FrameEvent& event) { return event.comes; }));
}

}  // namespace

Position HomeFrames::TakenAt(FrameIndex frame) const {
  if (!chosen() || frame >= begins_.size() || begins_[frame].empty()) return kNever;
  const std::vector<std::uint32_t>& begins = begins_[frame];
  const auto now = static_cast<std::uint32_t>(events_.size());
  const auto next = std::upper_bound(begins.begin(), begins.end(), now);
  return events_before_ + (next == begins.end() ? begins.front() + length_ : *next);
}

void HomeFrames::BeginIteration(std::uint64_t plan,
                                const FramePool& pool,
                                const std::function<bool(PageIndex)>& is_mapped,
                                std::uint64_t moved) {
  followed_ = plan;
  const bool resized = chosen() && pool.limit() != begins_.size();
  if (resized) choices_ = 0;
  const std::uint64_t moves = moved - moved_;
  const std::uint64_t some = CountComings(events_) / kMovedShare;
  const std::uint64_t expected = chosen() && !resized ? homeless_ : 0;
  const bool may = notes_ && choices_ < kChoicesMax;
  if (may && moves > expected + some) Choose(pool, is_mapped);
  Forget();
  notes_ = true;
  moved_ = moved;
}

void HomeFrames::Stop() {
  followed_.reset();
  notes_ = false;
  choices_ = 0;
  Forget();
}

void HomeFrames::Note(PageIndex page, bool comes) {
  if (!notes_) return;
  events_.push_back({page, comes});
  if (events_.size() <= kEventsMax) return;
  notes_ = false;
  Forget();
}

void HomeFrames::Forget() {
  events_before_ += events_.size();
  events_.clear();
}

void HomeFrames::Choose(const FramePool& pool, const std::function<bool(PageIndex)>& is_mapped) {
  ++choices_;
  chosen_for_ = followed_;
  std::vector<PageIndex> owners;
  std::vector<bool> usable;
  for (FrameIndex frame = 0; frame < pool.limit(); ++frame) {
    owners.push_back(pool.in_use(frame) ? pool.owner(frame) : kNoPage);
    usable.push_back(!pool.in_use(frame) || pool.owner(frame) != kNoPage);
  }
  const std::vector<Stay> stays = StaysOf(events_, owners);
  homes_ = ColourStays(stays, owners, usable, is_mapped);
  begins_.assign(usable.size(), {});
  homeless_ = 0;
  for (const Stay& stay : stays) {
    if (stay.begin == 0) continue;
    const FrameIndex home = HomeOf(stay.page);
    if (home == kNoFrame) {
      homeless_ += is_mapped(stay.page) ? 1 : 0;
    } else {
      begins_[home].push_back(stay.begin);
    }
  }
  for (std::vector<std::uint32_t>& begins : begins_) std::sort(begins.begin(), begins.end());
  length_ = static_cast<std::uint32_t>(events_.size());
}

}  // namespace sluice::core
