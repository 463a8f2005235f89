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

/// Times that mapped pages come to another frame than the one of their stay before.
std::uint64_t CountMoves(std::span<const Stay> stays,
                         std::span<const FrameIndex> frames,
                         const MappedTo& mapped_to) {
  std::uint64_t moves = 0;
  for (std::size_t first = 0, end = 0; first < stays.size(); first = end) {
    while (end < stays.size() && stays[end].page == stays[first].page) ++end;
    if (mapped_to(stays[first].page) == kNoFrame) continue;
    FrameIndex before = frames[end - 1];
    for (std::size_t i = first; i < end; ++i) {
      if (stays[i].begin > 0 && (frames[i] == kNoFrame || frames[i] != before)) ++moves;
      before = frames[i];
    }
  }
  return moves;
}

}  // namespace

/// Index in `homes_` for the next time that the page comes; their number for a page without one.
std::size_t HomeFrames::IndexOf(PageIndex page) const {
  if (page >= came_.size() || first_[page] == first_[page + 1]) return homes_.size();
  return std::min(first_[page] + came_[page], first_[page + 1] - 1);
}

FrameIndex HomeFrames::HomeOf(PageIndex page) const {
  const std::size_t index = IndexOf(page);
  return index < homes_.size() ? homes_[index].frame : kNoFrame;
}

HomeFrames::Home HomeFrames::Come(PageIndex page) {
  Home home;
  const std::size_t index = IndexOf(page);
  if (chosen() && index < homes_.size()) {
    home = homes_[index];
    home.leaves += events_before_;
    ++came_[page];
  }
  Note(page, true);
  return home;
}

Position HomeFrames::TakenAt(FrameIndex frame) const {
  if (!chosen() || frame >= begins_.size() || begins_[frame].empty()) return kNever;
  const std::vector<std::uint32_t>& begins = begins_[frame];
  const auto now = static_cast<std::uint32_t>(events_.size());
  const auto next = std::upper_bound(begins.begin(), begins.end(), now);
  return events_before_ + (next == begins.end() ? begins.front() + length_ : *next);
}

void HomeFrames::BeginIteration(std::uint64_t plan,
                                const FramePool& pool,
                                const MappedTo& mapped_to,
                                std::uint64_t moved) {
  followed_ = plan;
  const bool resized = chosen() && pool.limit() != begins_.size();
  if (resized) choices_ = 0;
  const std::uint64_t moves = moved - moved_;
  const std::uint64_t some = CountComings(events_) / kMovedShare;
  const std::uint64_t expected = chosen() && !resized ? moves_ : 0;
  const bool may = notes_ && choices_ < kChoicesMax;
  if (may && moves > expected + some) Choose(pool, mapped_to);
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
  came_.assign(came_.size(), 0);
}

void HomeFrames::Choose(const FramePool& pool, const MappedTo& mapped_to) {
  ++choices_;
  chosen_for_ = followed_;
  std::vector<PageIndex> owners;
  std::vector<bool> usable;
  for (FrameIndex frame = 0; frame < pool.limit(); ++frame) {
    owners.push_back(pool.in_use(frame) ? pool.owner(frame) : kNoPage);
    usable.push_back(!pool.in_use(frame) || pool.owner(frame) != kNoPage);
  }
  const std::vector<Stay> stays = StaysOf(events_, owners);
  const std::vector<FrameIndex> frames = ColourStays(stays, owners, usable, mapped_to);
  SetHomes(stays, frames);
  begins_.assign(usable.size(), {});
  for (std::size_t i = 0; i < stays.size(); ++i) {
    if (stays[i].begin > 0 && frames[i] != kNoFrame) begins_[frames[i]].push_back(stays[i].begin);
  }
  for (std::vector<std::uint32_t>& begins : begins_) std::sort(begins.begin(), begins.end());
  length_ = static_cast<std::uint32_t>(events_.size());
  moves_ = CountMoves(stays, frames, mapped_to);
}

/// A page that only stays has its frame as a home. One that stays over the end of the iteration
/// leaves in the next.
void HomeFrames::SetHomes(std::span<const Stay> stays, std::span<const FrameIndex> frames) {
  homes_.clear();
  first_.clear();
  Position wraps = 0;
  for (std::size_t i = 0; i < stays.size(); ++i) {
    const Stay& stay = stays[i];
    if (first_.size() <= stay.page) wraps = stay.begin == 0 ? stay.end : 0;
    first_.resize(stay.page + 1, static_cast<std::uint32_t>(homes_.size()));
    const bool last = i + 1 == stays.size() || stays[i + 1].page != stay.page;
    if (stay.begin == 0 && !(last && first_.back() == homes_.size())) continue;
    const Position leaves = stay.end > events_.size() ? events_.size() + wraps : stay.end;
    homes_.push_back({frames[i], leaves});
  }
  first_.push_back(static_cast<std::uint32_t>(homes_.size()));
  came_.assign(first_.size() - 1, 0);
}

}  // namespace sluice::core
