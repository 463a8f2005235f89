#include "tests/runtime/core/driver/last_copies.h"

#include <algorithm>
#include <cstddef>

#include "fmt/format.h"

namespace sluice::core {

void LastCopies::NoteDrop(PageIndex page, SimFrames::TierFrame place) {
  if (frames_->At(place.first, place.second).owner == page && HoldsContent(place)) {
    touched_.insert(page);
  }
}

void LastCopies::CheckDrops() {
  for (const PageIndex page : touched_) {
    verdict_->Check(Reachable(page), fmt::format("I2: the last copy of page {} was dropped", page));
    verdict_->Check(
        fence_ || named_.contains(page) || !OnlyAbandoned(page),
        fmt::format("page {} is left in an abandoned frame only, and was not named", page));
  }
  touched_.clear();
}

void LastCopies::CheckLost(PageIndex page) {
  verdict_->Check(doubtful_.erase(page) > 0,
                  fmt::format("page {} is called lost for no reason", page));
  if (shadow_->page(page).stamp == kZeros) return;
  for (const SimFrames::TierFrame& place : frames_->FramesOf(page)) {
    verdict_->Check(!HoldsContent(place),
                    fmt::format("page {} is called lost, tier {} has it", page, place.first));
  }
}

bool LastCopies::Reachable(PageIndex index) const {
  const ShadowPage& page = shadow_->page(index);
  if (!page.exists || page.lost || page.freeing() || page.stamp == kZeros) return true;
  if (page.file == page.stamp) return true;
  const auto& places = frames_->FramesOf(index);
  return std::any_of(places.begin(), places.end(), [this](const SimFrames::TierFrame& place) {
    return HoldsContent(place);
  });
}

/// Whether a read that no longer works there finds the page's bytes nowhere.
bool LastCopies::OnlyAbandoned(PageIndex index) const {
  const ShadowPage& page = shadow_->page(index);
  if (page.lost || page.freeing() || page.reproducible || page.file == page.stamp) return false;
  if (doubtful_.contains(index)) return false;
  std::size_t abandoned = 0, others = 0;
  for (const SimFrames::TierFrame& place : frames_->FramesOf(index)) {
    if (!HoldsContent(place)) continue;
    ++(frames_->At(place.first, place.second).abandoned ? abandoned : others);
  }
  return abandoned > 0 && others == 0;
}

bool LastCopies::HoldsContent(SimFrames::TierFrame place) const {
  const SimFrame& frame = frames_->At(place.first, place.second);
  const bool there = frame.has_content && (!frame.filling || frame.written_under_way);
  return there && frame.stamp == shadow_->page(frame.owner).stamp;
}

}  // namespace sluice::core
