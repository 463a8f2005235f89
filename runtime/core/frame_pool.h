#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/check.h"
#include "runtime/core/types.h"

namespace sluice::core {

/// The frames of one tier: a free list below a movable limit. O(1) but for SetLimit.
class FramePool {
 public:
  explicit FramePool(FrameIndex frames)
      : owner_(frames, kNoPage), in_use_(frames, false), limit_(frames) {
    for (FrameIndex i = frames; i > 0; --i) free_.push_back(i - 1);
  }

  FrameIndex limit() const { return limit_; }
  FrameIndex frames_max() const { return static_cast<FrameIndex>(owner_.size()); }
  FrameIndex free_count() const { return static_cast<FrameIndex>(free_.size()); }
  FrameIndex used() const { return used_; }
  FrameIndex used_peak() const { return used_peak_; }
  PageIndex owner(FrameIndex frame) const { return owner_[frame]; }
  bool in_use(FrameIndex frame) const { return in_use_[frame]; }

  /// REQUIRES: free_count() > 0. `page` may be kNoPage (a reservation).
  FrameIndex Take(PageIndex page) {
    SLUICE_CHECK(!free_.empty(), "I1: a frame is taken only when one is free");
    const FrameIndex frame = free_.back();
    free_.pop_back();
    owner_[frame] = page;
    in_use_[frame] = true;
    used_peak_ = std::max(used_peak_, ++used_);
    return frame;
  }

  void Give(FrameIndex frame) {
    SLUICE_CHECK(in_use_[frame], "I1: a frame is given back once");
    owner_[frame] = kNoPage;
    in_use_[frame] = false;
    --used_;
    if (frame < limit_) free_.push_back(frame);
  }

  /// Frames at or above the limit are not handed out; those in use stay so until given.
  void SetLimit(FrameIndex limit) {
    limit_ = limit;
    free_.clear();
    for (FrameIndex i = limit; i > 0; --i) {
      if (!in_use_[i - 1]) free_.push_back(i - 1);
    }
  }

 private:
  std::vector<PageIndex> owner_;
  std::vector<bool> in_use_;
  std::vector<FrameIndex> free_;
  FrameIndex limit_;
  FrameIndex used_ = 0;
  FrameIndex used_peak_ = 0;
};

}  // namespace sluice::core
