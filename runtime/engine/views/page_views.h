#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "runtime/core/copy_place.h"
#include "runtime/engine/api/tensor_table.h"
#include "runtime/engine/data/segment.h"
#include "runtime/engine/data/serial_executor.h"
#include "runtime/engine/data/tier_set.h"
#include "runtime/engine/report/logger.h"

namespace sluice::engine {

/// Note [Views]: a segment that is readable outside a lease (OffLease::kReadable) has a view, its
/// addresses in dram. Each page there always shows bytes of its newest content.
///  - A view moves before its frame or slot becomes another page's. The job that takes the frame or
///    slot comes after the move (Run), as the mapper does both jobs in order.
///  - A view moves to a copy only once that is complete.
///  - A lease that may write is granted when the view shows its frame. So its end needs no work. A
///    frame that waits for an overwrite is shown no sooner.
///  - A page without bytes that can be mapped is hidden: a touch is a SIGSEGV.

/// Decides what each page of a view shows, and has the mapper map it. It costs nothing in a Runtime
/// without such segments. Threads: as the methods say.
class PageViews {
 public:
  using SegmentPtr = std::shared_ptr<Segment>;
  using Job = absl::AnyInvocable<void()>;

  struct Options {
    const TierSet* tiers = nullptr;    ///< outlives the views
    SerialExecutor* mapper = nullptr;  ///< runs its last job before the views go
    Logger* logger = nullptr;          ///< outlives the views
    /// Function that finds a page's bytes. The core thread's methods alone call it.
    std::function<core::NewestCopy(PageIndex)> find_newest;
  };
  explicit PageViews(Options options) : options_(std::move(options)) {}

  // Any thread, before the segment's pages are known to the core.
  /// Maps the first content of the segment: zeros, or its file home. Errors: those of the mapping.
  absl::Status AddZeros(const Segment& segment);
  absl::Status AddHome(const Segment& segment);
  /// Replaces AddHome, and hides pages that are in the file alone. True: the segment is the first.
  bool HideHome(Segment& segment);
  /// Shows nothing from this tier's frames, as they cannot be mapped. True: the call is the first.
  bool HideTier(core::TierIndex tier);

  // The core thread.
  /// Notes that a frame becomes that of `page`, or, with kNoPage, is reserved. `fills`: the frame
  /// is about to have other bytes for a while, though the page's content is the same.
  void TakeFrame(core::TierIndex tier, core::FrameIndex frame, PageIndex page, bool fills);
  /// Notes that the slot is not the page's copy any more. A frame shows the same bytes until
  /// somebody takes it; a slot may be another page's at once.
  void LeaveSlot(const SegmentPtr& segment, PageIndex page, core::CopyPlace slot);
  /// Notes that frames from `frames` on hold no pages.
  void LeaveFrames(core::TierIndex tier, core::FrameIndex frames);
  /// Hides a page whose bytes are lost.
  void Hide(const SegmentPtr& segment, PageIndex page);
  /// Shows a frame for a lease that is about to be granted, and may write the page or reads it at
  /// the view's address. False: the grant has to wait for the mapper (RunLast).
  bool Show(const SegmentPtr& segment, PageIndex page, core::CopyPlace frame);
  /// Notes discards of these pages. The core acts on them when their leases are gone.
  void NoteDiscard(const SegmentPtr& segment, const PageRun& run);
  /// Shows zeros where a discard has acted. Called after each event.
  void ShowDiscarded();
  /// Forgets pages that were freed.
  void Forget(const SegmentPtr& segment, const PageRun& run);

  // Any thread.
  /// Whether there was ever a segment with a view.
  bool used() const { return used_.load(std::memory_order_relaxed); }
  /// Runs `job` once no view shows the frame or slot. No new view shows it meanwhile.
  template <typename Function>
  void Run(core::TierIndex tier, core::FrameIndex frame, Function job) {
    if (!used()) return std::move(job)();
    RunAll(tier, std::span(&frame, 1), Job(std::move(job)));
  }
  /// Whether no view shows the frame or slot.
  bool IsLeft(core::TierIndex tier, core::FrameIndex frame);
  /// Does Run for several frames.
  void RunAll(core::TierIndex tier, std::span<const core::FrameIndex> frames, Job job);
  /// Runs `job` on the mapper after all earlier jobs.
  void RunLast(Job job);
  /// Whether the page's view has `place`. The mapper may not have mapped it yet.
  bool Shows(PageIndex page, core::CopyPlace place) const;
  /// Shows a frame for a lease at the view's address, then tells `done` on any thread. Errors:
  /// those of the mapping.
  void Map(const SegmentPtr& segment,
           PageIndex page,
           core::CopyPlace frame,
           absl::AnyInvocable<void(absl::Status)> done);
  /// Notes that a copy into `target` has failed and may have changed it. `source` is as it was.
  void Spoil(const SegmentPtr& segment,
             PageIndex page,
             core::CopyPlace target,
             core::CopyPlace source);
  /// Notes that a copy of the page is complete. A page that was hidden shows it.
  void Arrive(const SegmentPtr& segment, PageIndex page, core::CopyPlace place);

 private:
  using Key = std::pair<core::TierIndex, core::FrameIndex>;
  struct View {
    SegmentPtr segment;
    core::CopyPlace place;
    std::uint64_t change = 0;  ///< number of the job that maps it
  };

  bool IsDone(std::uint64_t change) const {
    return change <= done_.load(std::memory_order_acquire);
  }
  static bool IsFrame(const core::CopyPlace& place) {
    return place.kind == core::CopyPlace::Kind::kFrame;
  }
  /// Returns `place`, or nowhere if it cannot be mapped.
  core::CopyPlace Reach(const Segment& segment, core::CopyPlace place) const;
  core::CopyPlace AtFirst(const Segment& segment) const;
  View& ViewOf(const SegmentPtr& segment, PageIndex page) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Move(const SegmentPtr& segment, PageIndex page, core::CopyPlace place)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Leave(const core::CopyPlace& place, std::uint64_t change)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::uint64_t Post(Job job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsFree(const Key& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Apply(const Segment& segment, PageIndex page, core::CopyPlace place);
  absl::Status MapNow(const Segment& segment, PageIndex page, core::CopyPlace place);
  absl::Status MapSlot(std::span<std::byte> at, core::FrameIndex slot);
  void NoteFailure(const Segment& segment, PageIndex page, const absl::Status& status);

  const Options options_;
  std::atomic<bool> used_{false};
  std::atomic<bool> hides_homes_{false};
  std::atomic<std::uint32_t> hidden_tiers_{0};  ///< bit t: nothing is shown from tier t
  std::atomic<std::uint64_t> done_{0};          ///< number of the last job that has run
  mutable base::Mutex mutex_;
  std::uint64_t posted_ ABSL_GUARDED_BY(mutex_) = 0;
  /// Views that were moved once; the others have their first content.
  absl::flat_hash_map<PageIndex, View> views_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<Key, PageIndex> shown_in_ ABSL_GUARDED_BY(mutex_);  ///< frames in memory
  /// Frames and slots that views have left, and the job after which they are free.
  absl::flat_hash_map<Key, std::uint64_t> left_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<core::SegmentIndex> told_ ABSL_GUARDED_BY(mutex_);
  /// Pages whose discard waits; the core thread's own.
  absl::flat_hash_map<PageIndex, SegmentPtr> discards_;
};

}  // namespace sluice::engine
