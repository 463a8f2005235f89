#pragma once

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

/// Where a page of a segment is, or was.
struct PageInFrame {
  std::shared_ptr<Segment> segment;
  PageIndex page = 0;
  core::TierIndex tier = 0;
  core::FrameIndex frame = 0;
};

/// Maps frames under the addresses of tensors. The mapping of a page that has left its frame is
/// kept until another page takes that: who comes back first is mapped already, which saves two
/// changes of the page table that every processor has to hear of. Threads: Leave, Displace and
/// Forget the core's, Reuse any, the rest the mapper's.
class PageMapper {
 public:
  struct Options {
    const TierSet* tiers = nullptr;  ///< outlives the mapper
    Logger* logger = nullptr;        ///< likewise
    /// Mappings that are kept; each may cost one of the kernel's vm.max_map_count.
    std::size_t kept_max = 4096;
  };
  explicit PageMapper(const Options& options) : options_(options) {}

  /// Has a place unmapped on the mapper thread after all that was posted there before. Called under
  /// a lock: who is told by Reuse to Map then posts that later.
  using PostUnmap = absl::FunctionRef<void(PageInFrame)>;

  /// The page is not there any more.
  void Leave(const PageInFrame& place, PostUnmap post);
  /// The page is there again, and is to be mapped. True: it is so already, else Map has to follow.
  bool Reuse(const PageInFrame& place);
  /// A page takes the frame.
  void Displace(core::TierIndex tier, core::FrameIndex frame, PageIndex page, PostUnmap post);
  /// The pages are nowhere any more, and their indices may become those of others.
  void Forget(const PageRun& run, PostUnmap post);

  /// Errors: those of MemoryTier::ReserveRange and Map; then nothing is mapped there.
  absl::Status Map(const PageInFrame& place);
  void Unmap(const PageInFrame& place);
  /// Gives frames from `frames` on back to the system, or takes them again.
  absl::Status Resize(core::TierIndex tier, core::FrameIndex frames);

 private:
  using Kept = std::list<PageInFrame>;
  using Key = std::pair<core::TierIndex, std::uint32_t>;  ///< a page or a frame of a tier
  using Index = absl::flat_hash_map<Key, Kept::iterator>;

  absl::Status MapFrame(const PageInFrame& place);
  /// Takes out those for which `goes` is true.
  Kept TakeIf(absl::FunctionRef<bool(const PageInFrame&)> goes);
  PageInFrame Take(Kept::iterator kept) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  base::Mutex mutex_;
  Kept kept_ ABSL_GUARDED_BY(mutex_);  ///< mappings in the order of leaving
  Index by_page_ ABSL_GUARDED_BY(mutex_);
  Index by_frame_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice::engine
