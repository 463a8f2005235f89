#pragma once

#include <cstdint>
#include <optional>
#include <span>
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
/// as there are frames for them, long before the plan needs them. A page whose home is not free
/// takes the frame that it is mapped to, else one that nobody takes until the page leaves, else the
/// one that will be taken last. The page that is at home there then takes another, and so on.
class HomeFrames {
 public:
  /// Whether homes have been chosen for the plan that is followed.
  bool chosen() const { return !homes_.empty() && followed_ == chosen_for_; }
  /// The page's home when it comes next; kNoFrame: none.
  FrameIndex HomeOf(PageIndex page) const;
  /// Event, counted since the start, at which the frame is to be taken next; kNever: no page's
  /// home.
  Position TakenAt(FrameIndex frame) const;

  struct Home {
    FrameIndex frame = kNoFrame;  ///< kNoFrame: none
    Position leaves = kNever;     ///< event, counted as for TakenAt, at which the page is to leave
  };
  /// The page takes a frame, or has given its frame back. Come returns its home for this time.
  Home Come(PageIndex page);
  void Go(PageIndex page) { Note(page, false); }

  /// An iteration of a plan begins. `plan` tells plans apart. `moved`: times that pages have come
  /// to another frame than before, since the start. Homes are chosen anew, a few times for a plan
  /// and a limit of the pool, if more have moved than were to. 0.1 s for 10,000 pages, below 1 s
  /// for 100,000.
  void BeginIteration(std::uint64_t plan,
                      const FramePool& pool,
                      const MappedTo& mapped_to,
                      std::uint64_t moved);
  /// No plan is followed any more. Homes are kept for when the plan is followed again.
  void Stop();

 private:
  void Note(PageIndex page, bool comes);
  void Forget();
  void Choose(const FramePool& pool, const MappedTo& mapped_to);
  void SetHomes(std::span<const Stay> stays, std::span<const FrameIndex> frames);
  std::size_t IndexOf(PageIndex page) const;

  std::vector<Home> homes_;           ///< homes of page after page, one for each coming
  std::vector<std::uint32_t> first_;  ///< first home of each page, and their number
  std::vector<std::uint32_t> came_;   ///< times that each page came in the iteration
  std::vector<std::vector<std::uint32_t>> begins_;  ///< events at which each frame will be taken
  std::uint32_t length_ = 0;                        ///< events of the iteration that was seen
  std::uint64_t moves_ = 0;                         ///< moves of mapped pages by their homes
  std::uint32_t choices_ = 0;                       ///< choices since the plan is followed
  std::optional<std::uint64_t> followed_;           ///< plan that is followed
  std::optional<std::uint64_t> chosen_for_;         ///< plan that homes have been chosen for
  bool notes_ = false;                              ///< true while all events are kept
  std::vector<FrameEvent> events_;                  ///< events since the iteration began
  Position events_before_ = 0;                      ///< events until the iteration began
  std::uint64_t moved_ = 0;                         ///< moves until the iteration began
};

}  // namespace sluice::core
