#pragma once

#include <array>
#include <cstddef>
#include <list>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "runtime/engine/api/tensor_table.h"
#include "runtime/engine/data/segment.h"
#include "runtime/engine/data/tier_set.h"
#include "runtime/engine/report/logger.h"

namespace sluice::engine {

/// Place of a page of a segment, now or before.
struct PageInFrame {
  std::shared_ptr<Segment> segment;
  PageIndex page = 0;
  core::TierIndex tier = 0;
  core::FrameIndex frame = 0;
};

/// Maps frames under the addresses of tensors. The mapping of a page that has left its frame is
/// kept (LeftMapping). A page that comes back to its frame is then mapped already. Two changes of
/// the page table are saved, of which every processor, or the GPU, has to hear. One frame is then
/// under the addresses of several pages; at most one of them is in the frame. Threads: Displace and
/// Forget the core's, Reuse and Leave any, the rest the mapper's.
class PageMapper {
 public:
  struct Options {
    const TierSet* tiers = nullptr;  ///< outlives the mapper
    Logger* logger = nullptr;        ///< outlives the mapper
    /// Mappings kept per tier of host memory; each may cost one of the kernel's vm.max_map_count.
    std::size_t kept_max = 16384;
  };
  explicit PageMapper(const Options& options) : options_(options) {}

  /// Has a place unmapped on the mapper thread, after all jobs that were posted there before. The
  /// mapper calls it under a lock, so that a caller whom Reuse tells to Map posts that job later.
  using PostUnmap = absl::FunctionRef<void(PageInFrame)>;

  /// Notes that the page has left the place.
  void Leave(const PageInFrame& place, PostUnmap post);
  /// Notes that the page is to be mapped in the place, where it is or will be. True: the page is
  /// mapped already. False: Map has to follow.
  bool Reuse(const PageInFrame& place);
  /// Notes that a page takes the frame.
  void Displace(core::TierIndex tier, core::FrameIndex frame, PageIndex page, PostUnmap post);
  /// Notes that the pages are gone. Their indices may become those of other pages.
  void Forget(const PageRun& run, PostUnmap post);

  /// Errors: those of MemoryTier::ReserveRange and Map; then nothing is mapped there.
  absl::Status Map(const PageInFrame& place);
  void Unmap(const PageInFrame& place);
  /// Gives frames from `frames` on back to the system, or takes them again.
  absl::Status Resize(core::TierIndex tier, core::FrameIndex frames);

 private:
  using Kept = std::list<PageInFrame>;
  struct TierMappings {
    Kept kept;  ///< mappings in the order of leaving
    absl::flat_hash_map<PageIndex, Kept::iterator> by_page;
    /// Mappings that go when another page takes the frame.
    absl::flat_hash_map<core::FrameIndex, Kept::iterator> by_frame;
    /// Mappings of pages that Map was promised for: it maps over them.
    absl::flat_hash_map<PageIndex, PageInFrame> mapped_over;
  };

  absl::Status MapFrame(const PageInFrame& place);
  bool GoesWhenTaken(core::TierIndex tier) const {
    return options_.tiers->tier(tier).left_mapping == LeftMapping::kUntilTaken;
  }
  bool IsTooMany(core::TierIndex tier) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  /// Takes out all that is kept.
  Kept TakeAll();
  /// Takes out what is mapped to frames from `frames` on.
  Kept TakeFrom(core::TierIndex tier, core::FrameIndex frames);
  PageInFrame Take(Kept::iterator kept) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  base::Mutex mutex_;
  std::array<TierMappings, core::kTiersMax> mappings_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice::engine
