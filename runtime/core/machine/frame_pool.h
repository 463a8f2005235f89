#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/check.h"
#include "runtime/core/types.h"

namespace sluice::core {

/// The frames of one tier: those that are free below a movable limit, in a list. O(1) but for
/// SetLimit.
class FramePool {
 public:
  explicit FramePool(FrameIndex frames)
      : owner_(frames, kNoPage), in_use_(frames, false), links_(frames + 1), limit_(frames) {
    SetLimit(frames);
  }

  FrameIndex limit() const { return limit_; }
  FrameIndex frames_max() const { return static_cast<FrameIndex>(owner_.size()); }
  FrameIndex free_count() const { return free_; }
  FrameIndex used() const { return used_; }
  FrameIndex used_peak() const { return used_peak_; }
  PageIndex owner(FrameIndex frame) const { return owner_[frame]; }
  bool in_use(FrameIndex frame) const { return in_use_[frame]; }

  /// `preferred` if it is free; else the frame that has been free for longest, which hardly anybody
  /// prefers. Who prefers none gets the one that was given last, as that may be in a cache.
  /// REQUIRES: free_count() > 0. `page` may be kNoPage (a reservation).
  FrameIndex Take(PageIndex page, FrameIndex preferred = kNoFrame) {
    SLUICE_CHECK(free_ > 0, "I1: a frame is taken only when one is free");
    const Links ends = links_[end()];
    const FrameIndex other = preferred == kNoFrame ? ends.previous : ends.next;
    const FrameIndex frame = IsFree(preferred) ? preferred : other;
    Unlink(frame);
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
    if (frame < limit_) Append(frame);
  }

  /// Frames at or above the limit are not handed out; those in use stay so until given. How long a
  /// frame has been free is forgotten.
  void SetLimit(FrameIndex limit) {
    limit_ = limit;
    free_ = 0;
    links_[end()] = {end(), end()};
    for (FrameIndex i = limit; i > 0; --i) {
      if (!in_use_[i - 1]) Append(i - 1);
    }
  }

 private:
  struct Links {
    FrameIndex previous = 0;
    FrameIndex next = 0;
  };

  /// The ring of free frames begins and ends here.
  FrameIndex end() const { return frames_max(); }
  bool IsFree(FrameIndex frame) const { return frame < limit_ && !in_use_[frame]; }

  void Append(FrameIndex frame) {
    const FrameIndex last = links_[end()].previous;
    links_[frame] = {last, end()};
    links_[last].next = frame;
    links_[end()].previous = frame;
    ++free_;
  }
  void Unlink(FrameIndex frame) {
    const Links links = links_[frame];
    links_[links.previous].next = links.next;
    links_[links.next].previous = links.previous;
    --free_;
  }

  std::vector<PageIndex> owner_;
  std::vector<bool> in_use_;
  std::vector<Links> links_;  ///< links of free frames, and of end()
  FrameIndex limit_;
  FrameIndex free_ = 0;
  FrameIndex used_ = 0;
  FrameIndex used_peak_ = 0;
};

}  // namespace sluice::core
