#pragma once

#include <cstdint>
#include <iterator>
#include <set>
#include <tuple>
#include <vector>

#include "runtime/core/types.h"

namespace sluice::core {

/// The free frames of a tier in a list, in the order in which they became free. O(1).
class FreeRing {
 public:
  explicit FreeRing(FrameIndex frames) : links_(frames + 1) { Clear(); }

  /// First: the frame that has been free for longest. Last: the one that became free last.
  /// REQUIRES: a frame is free.
  FrameIndex First() const { return links_[end()].next; }
  FrameIndex Last() const { return links_[end()].previous; }

  void Add(FrameIndex frame) {
    const FrameIndex last = links_[end()].previous;
    links_[frame] = {last, end()};
    links_[last].next = frame;
    links_[end()].previous = frame;
  }
  void Remove(FrameIndex frame) {
    const Links links = links_[frame];
    links_[links.previous].next = links.next;
    links_[links.next].previous = links.previous;
  }
  void Clear() { links_[end()] = {end(), end()}; }

 private:
  struct Links {
    FrameIndex previous = 0;
    FrameIndex next = 0;
  };

  /// Place at which the ring of free frames begins and ends.
  FrameIndex end() const { return static_cast<FrameIndex>(links_.size() - 1); }

  std::vector<Links> links_;  ///< links of free frames, and of end()
};

/// The free frames of a tier by the position at which a page comes back to them. O(log n).
class FreeByReturn {
 public:
  explicit FreeByReturn(FrameIndex frames) : keys_(frames) {}

  /// The frame whose page comes back soonest at `leaves` or later; if there is none, the frame
  /// whose page comes back last. Of several, the one that has been free for longest. REQUIRES: a
  /// frame is free.
  FrameIndex Until(Position leaves) const {
    const auto fits = keyed_.lower_bound({leaves, 0, 0});
    if (fits == keyed_.end()) return std::get<2>(*keyed_.rbegin());
    const auto after = keyed_.upper_bound({std::get<0>(*fits), UINT64_MAX, kNoFrame});
    return std::get<2>(*std::prev(after));
  }

  void Add(FrameIndex frame, Position returns) {
    keys_[frame] = {returns, --next_age_};
    keyed_.emplace(returns, keys_[frame].age, frame);
  }
  void Remove(FrameIndex frame) { keyed_.erase({keys_[frame].returns, keys_[frame].age, frame}); }
  void Clear() { keyed_.clear(); }

 private:
  struct KeyOfFrame {
    Position returns = 0;
    std::uint64_t age = 0;
  };

  std::vector<KeyOfFrame> keys_;
  std::set<std::tuple<Position, std::uint64_t, FrameIndex>> keyed_;
  /// Age of the next frame; it falls, so that a frame free for longer comes later in the set.
  std::uint64_t next_age_ = UINT64_MAX;
};

}  // namespace sluice::core
