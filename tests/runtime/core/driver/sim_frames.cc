#include "tests/runtime/core/driver/sim_frames.h"

namespace sluice::core {

SimFrames::SimFrames(const std::vector<FrameIndex>& frames)
    : limits_(frames), used_(frames.size()) {
  for (const FrameIndex count : frames) tiers_.emplace_back(count);
}

void SimFrames::SetOwner(TierIndex tier, FrameIndex index, PageIndex page) {
  SimFrame& frame = At(tier, index);
  if (frame.owner == page) return;
  if (frame.owner != kNoPage) {
    frames_of_[frame.owner].erase({tier, index});
    --used_[tier];
  }
  frame.owner = page;
  if (page == kNoPage) return;
  frames_of_[page].insert({tier, index});
  ++used_[tier];
}

const std::set<SimFrames::TierFrame>& SimFrames::FramesOf(PageIndex page) const {
  static const std::set<TierFrame> kNone;
  const auto found = frames_of_.find(page);
  return found == frames_of_.end() ? kNone : found->second;
}

void SimFrames::Reserve(TierIndex tier, FrameIndex frame) {
  At(tier, frame).reserved = true;
  ++used_[tier];
}

void SimFrames::Unreserve(TierIndex tier, FrameIndex frame) {
  At(tier, frame).reserved = false;
  --used_[tier];
}

void SimFrames::SetLimit(TierIndex tier, FrameIndex limit) {
  limits_[tier] = limit;
  if (limit > tiers_[tier].size()) tiers_[tier].resize(limit);
}

}  // namespace sluice::core
