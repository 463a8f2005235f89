#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "runtime/core/types.h"
#include "tests/runtime/core/driver/shadow_model.h"

namespace sluice::core {

/// Physical state of a frame.
struct SimFrame {
  PageIndex owner = kNoPage;
  bool reserved = false;
  bool abandoned = false;  ///< true if the content may soon be unreadable
  bool filling = false;    ///< a task writes it
  bool under_way = false;  ///< true once the task has reported that it is under way
  bool granted_under_way = false;
  bool written_under_way = false;  ///< a lease writes what follows the task's bytes
  bool mapping = false;            ///< a StartMap is in flight
  bool mapped = false;
  /// A task for this page failed here: the frame is free, and may still be dropped or tried again.
  PageIndex failed_for = kNoPage;
  std::uint32_t readers = 0;  ///< copies that read the frame
  std::uint32_t pins = 0;
  bool has_content = false;
  Stamp stamp = kZeros;
  /// Page, segment and generation that the content was written as.
  PageIndex content_page = kNoPage;
  SegmentIndex segment = 0;
  std::uint64_t generation = 0;
};

/// The frames of all tiers, who owns them, and the budgets. Checks nothing.
class SimFrames {
 public:
  using TierFrame = std::pair<TierIndex, FrameIndex>;

  /// `frames`: number of frames of each tier, which is its first budget too.
  explicit SimFrames(const std::vector<FrameIndex>& frames);

  TierIndex tier_count() const { return static_cast<TierIndex>(tiers_.size()); }
  bool IsLast(TierIndex tier) const { return tier + 1u == tiers_.size(); }
  bool Exists(TierIndex tier, FrameIndex frame) const {
    return tier < tiers_.size() && frame < tiers_[tier].size();
  }
  SimFrame& At(TierIndex tier, FrameIndex frame) { return tiers_[tier][frame]; }
  const SimFrame& At(TierIndex tier, FrameIndex frame) const { return tiers_[tier][frame]; }

  /// Gives the frame to a page; kNoPage: to nobody.
  void SetOwner(TierIndex tier, FrameIndex frame, PageIndex page);
  /// Frames that the page owns.
  const std::set<TierFrame>& FramesOf(PageIndex page) const;
  void ForgetPage(PageIndex page) { frames_of_.erase(page); }

  void Reserve(TierIndex tier, FrameIndex frame);
  void Unreserve(TierIndex tier, FrameIndex frame);
  /// Number of frames that are owned or reserved.
  FrameIndex used(TierIndex tier) const { return used_[tier]; }

  FrameIndex limit(TierIndex tier) const { return limits_[tier]; }
  /// Sets the budget. Frames at or above it stay as they are.
  void SetLimit(TierIndex tier, FrameIndex limit);
  /// Number of frames that the tier has had at most.
  FrameIndex size(TierIndex tier) const { return static_cast<FrameIndex>(tiers_[tier].size()); }

 private:
  std::vector<std::vector<SimFrame>> tiers_;
  std::vector<FrameIndex> limits_;
  std::vector<FrameIndex> used_;
  /// The frames that each page owns.
  absl::flat_hash_map<PageIndex, std::set<TierFrame>> frames_of_;
};

}  // namespace sluice::core
