#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/check.h"
#include "runtime/core/state/free_frames.h"
#include "runtime/core/types.h"

namespace sluice::core {

/// Choice of a free frame for a page that cannot have the one it prefers.
enum class FrameOrder : std::uint8_t {
  kByAge,     ///< see FramePool::Take
  kByReturn,  ///< see FramePool::Take
};

/// The frames of one tier. The pool hands out free frames below a movable limit. O(1), or O(log n)
/// by return, but for SetLimit.
class FramePool {
 public:
  explicit FramePool(FrameIndex frames, FrameOrder order = FrameOrder::kByAge)
      : owner_(frames, kNoPage), in_use_(frames, false), limit_(frames) {
    if (order == FrameOrder::kByReturn) {
      by_return_.emplace(frames);
      returns_.assign(frames, kNever);
    } else {
      ring_.emplace(frames);
    }
    SetLimit(frames);
  }

  FrameIndex limit() const { return limit_; }
  FrameIndex frames_max() const { return static_cast<FrameIndex>(owner_.size()); }
  FrameIndex free_count() const { return free_; }
  FrameIndex used() const { return used_; }
  FrameIndex used_peak() const { return used_peak_; }
  PageIndex owner(FrameIndex frame) const { return owner_[frame]; }
  bool in_use(FrameIndex frame) const { return in_use_[frame]; }
  bool IsFree(FrameIndex frame) const { return frame < limit_ && !in_use_[frame]; }

  /// Takes a frame: `preferred` if it is free.
  /// - Else, by return: the frame whose page comes back soonest after the page has left, at the
  ///   position `leaves`; if all come back before, the one whose page comes back last.
  /// - Else, by age: the frame that has been free for longest, which hardly any page prefers. A
  ///   page that prefers none gets the frame that was given last, as that may be in a cache.
  /// REQUIRES: free_count() > 0. `page` may be kNoPage (a reservation).
  FrameIndex Take(PageIndex page, FrameIndex preferred = kNoFrame, Position leaves = kNever) {
    SLUICE_CHECK(free_ > 0, "I1: a frame is taken only when one is free");
    const FrameIndex frame = IsFree(preferred) ? preferred : Other(preferred, leaves);
    Remove(frame);
    owner_[frame] = page;
    in_use_[frame] = true;
    used_peak_ = std::max(used_peak_, ++used_);
    return frame;
  }

  /// Gives a frame back. `returns`: position at which a page at home in the frame comes back;
  /// counts by return only.
  void Give(FrameIndex frame, Position returns = kNever) {
    SLUICE_CHECK(in_use_[frame], "I1: a frame is given back once");
    owner_[frame] = kNoPage;
    in_use_[frame] = false;
    --used_;
    if (by_return_.has_value()) returns_[frame] = returns;
    if (frame < limit_) Add(frame);
  }

  /// Sets the limit: the pool hands out no frame at or above it. Frames in use stay so until given.
  /// The pool forgets for how long each frame has been free.
  void SetLimit(FrameIndex limit) {
    limit_ = limit;
    free_ = 0;
    if (ring_.has_value()) ring_->Clear();
    if (by_return_.has_value()) by_return_->Clear();
    for (FrameIndex i = 0; i < limit; ++i) {
      // Low frames go first.
      const FrameIndex frame = ring_.has_value() ? limit - 1 - i : i;
      if (!in_use_[frame]) Add(frame);
    }
  }

 private:
  FrameIndex Other(FrameIndex preferred, Position leaves) const {
    if (by_return_.has_value()) return by_return_->Until(leaves);
    return preferred == kNoFrame ? ring_->Last() : ring_->First();
  }
  void Add(FrameIndex frame) {
    ++free_;
    if (ring_.has_value()) return ring_->Add(frame);
    by_return_->Add(frame, returns_[frame]);
  }
  void Remove(FrameIndex frame) {
    --free_;
    if (ring_.has_value()) return ring_->Remove(frame);
    by_return_->Remove(frame);
  }

  std::vector<PageIndex> owner_;
  std::vector<bool> in_use_;
  std::optional<FreeRing> ring_;           ///< free frames, if they are chosen by age
  std::optional<FreeByReturn> by_return_;  ///< free frames, if they are chosen by return
  std::vector<Position> returns_;          ///< positions of Give, by frame; by return only
  FrameIndex limit_;
  FrameIndex free_ = 0;
  FrameIndex used_ = 0;
  FrameIndex used_peak_ = 0;
};

}  // namespace sluice::core
