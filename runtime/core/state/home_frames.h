#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "runtime/core/plan/stay_colouring.h"
#include "runtime/core/state/frame_pool.h"
#include "runtime/core/types.h"

namespace sluice::core {

/// Home frames of a tier's pages: the frames in which pages of a planned iteration are each time
/// they come.
///
/// Note [Home frames]
/// Iterations of a plan are alike. So the stays of one say which pages will share a frame in the
/// next without being there at the same time. The plan's own times would not do: pages come as soon
/// as there are frames for them, long before the plan needs them. A page without a home takes the
/// frame that will be taken last. The page that is at home there then takes another, and so on.
class HomeFrames {
 public:
  /// Whether homes have been chosen for the plan that is followed.
  bool chosen() const { return !homes_.empty() && followed_ == chosen_for_; }
  /// The page's home; kNoFrame: none.
  FrameIndex HomeOf(PageIndex page) const { return page < homes_.size() ? homes_[page] : kNoFrame; }
  /// Event, counted since the start, at which the frame is to be taken next; kNever: no page's
  /// home.
  Position TakenAt(FrameIndex frame) const;

  /// The page has taken a frame, or has given its frame back.
  void Come(PageIndex page) { Note(page, true); }
  void Go(PageIndex page) { Note(page, false); }

  /// An iteration of a plan begins. `plan` tells plans apart. `is_mapped`: whether the page is
  /// mapped. `moved`: times that pages have come to another frame than before, since the start.
  /// Homes are chosen anew, a few times for a plan and a limit of the pool, if more have moved than
  /// come without a home. 0.1 s for 10,000 pages, below 1 s for 100,000.
  void BeginIteration(std::uint64_t plan,
                      const FramePool& pool,
                      const std::function<bool(PageIndex)>& is_mapped,
                      std::uint64_t moved);
  /// No plan is followed any more. Homes are kept for when the plan is followed again.
  void Stop();

 private:
  void Note(PageIndex page, bool comes);
  void Forget();
  void Choose(const FramePool& pool, const std::function<bool(PageIndex)>& is_mapped);

  std::vector<FrameIndex> homes_;                   ///< home of each page
  std::vector<std::vector<std::uint32_t>> begins_;  ///< events at which each frame will be taken
  std::uint32_t length_ = 0;                        ///< events of the iteration that was seen
  std::uint64_t homeless_ = 0;                      ///< times that pages without a home came in it
  std::uint32_t choices_ = 0;                       ///< choices since the plan is followed
  std::optional<std::uint64_t> followed_;           ///< plan that is followed
  std::optional<std::uint64_t> chosen_for_;         ///< plan that homes have been chosen for
  bool notes_ = false;                              ///< true while all events are kept
  std::vector<FrameEvent> events_;                  ///< events since the iteration began
  Position events_before_ = 0;                      ///< events until the iteration began
  std::uint64_t moved_ = 0;                         ///< moves until the iteration began
};

}  // namespace sluice::core
