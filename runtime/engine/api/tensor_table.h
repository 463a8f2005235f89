#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "runtime/core/types.h"
#include "runtime/engine/data/page_allocator.h"
#include "runtime/engine/data/segment.h"
#include "runtime/engine/data/tier_set.h"
#include "sluice/op.h"
#include "sluice/tensor.h"

namespace sluice::engine {

struct PageRun {
  PageIndex first = 0;
  std::uint32_t pages = 0;
};

/// One access with its tensor, segment, tier and address looked up.
struct ResolvedAccess {
  std::shared_ptr<TensorInfo> tensor;
  std::shared_ptr<Segment> segment;
  TierId tier_id;
  core::TierIndex tier = 0;
  AccessMode mode = AccessMode::kRead;
  ByteRange range;            ///< bytes within the tensor, not empty
  std::byte* base = nullptr;  ///< the segment's address in `tier` when contiguous, else null
  std::uint64_t discards = 0;
  std::optional<double> recompute_seconds;

  /// First byte of the access within the segment; end() is behind the last one.
  std::uint64_t begin() const { return tensor->offset + range.offset; }
  std::uint64_t end() const { return begin() + range.bytes; }
};

/// First home of a segment; if both are empty it has no home.
struct SegmentHome {
  std::shared_ptr<HomeFile> file;
  std::vector<HomePart> joined;
};

struct LiveBytes {
  std::uint64_t live = 0;
  std::uint64_t peak = 0;
  std::uint64_t padding = 0;
};

/// Every tensor of a Runtime: ids, names, places, and whether each holds content. Threads: any.
class TensorTable {
 public:
  explicit TensorTable(std::uint64_t page_bytes) : page_bytes_(page_bytes) {}

  /// The first byte of the file that a segment with a file home holds. If the home is only read,
  /// the segment's pages are those of the file. REQUIRES: valid specs with a file home.
  std::uint64_t FirstByteInFile(std::span<const TensorSpec> specs) const;
  /// Lays `specs` out in a new segment. Nobody can find its tensors before Publish. `view`: see
  /// Segment::Parts.
  /// REQUIRES: valid specs. Errors: ResourceExhausted (page indices used up).
  absl::StatusOr<std::shared_ptr<Segment>> Prepare(std::span<const TensorSpec> specs,
                                                   core::TierIndex lowest,
                                                   SegmentHome home,
                                                   std::optional<core::TierIndex> view = {});
  void Publish(const std::shared_ptr<Segment>& segment);
  /// Takes back what Prepare gave, instead of Publish.
  void Abandon(const Segment& segment);

  /// Returns null for an unknown tensor.
  std::shared_ptr<TensorInfo> Find(TensorId id) const;
  /// Ids of all tensors, in the order of their creation.
  std::vector<TensorId> Tensors() const;
  /// Looks up the parts of each access. Errors:
  /// - InvalidArgument: unknown tensor, bad range, a tier that does not exist or that the tensor
  ///   may not be leased in
  /// - ResourceExhausted: no address range
  /// - Cancelled: closed
  absl::StatusOr<std::vector<ResolvedAccess>> Resolve(std::span<const Access> accesses,
                                                      const TierSet& tiers) const;

  struct Freed {
    std::shared_ptr<TensorInfo> tensor;
    std::vector<PageRun> runs;
  };
  /// Forgets the tensor. Freed::runs are the pages that no other tensor needs. Errors: NotFound.
  absl::StatusOr<Freed> Free(TensorId id);
  /// Gives page indices back.
  void OnPagesFreed(PageRun run);

  struct Discarded {
    std::shared_ptr<TensorInfo> tensor;
    ByteRange range;
    std::vector<PageRun> runs;
  };
  /// Notes a discard. Discarded::runs are the pages of which every byte in a tensor lies in the
  /// range. Errors: NotFound, InvalidArgument.
  absl::StatusOr<Discarded> Discard(TensorId id, ByteRange range);

  /// Notes that the tensor was granted for writing. `discards`: discards of the tensor at the time
  /// of the request.
  void MarkLive(TensorInfo& tensor, std::uint64_t discards);
  LiveBytes live_bytes() const;
  /// Pages of segments that are readable outside a lease.
  std::uint64_t readable_pages() const;
  /// The tensor's bytes at its addresses in `tier`. Errors: NotFound, ResourceExhausted (no address
  /// range), Cancelled (closed).
  absl::StatusOr<std::span<const std::byte>> AddressIn(core::TierIndex tier,
                                                       const TierSet& tiers,
                                                       TensorId id) const;

  /// Closes the table: it finds no tensor and hands out no address any more.
  void Close();

 private:
  struct Entry {
    std::shared_ptr<TensorInfo> tensor;
    std::shared_ptr<Segment> segment;
  };
  absl::StatusOr<ResolvedAccess> ResolveOne(const Access& access, const TierSet& tiers) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<PageRun> WholePages(const Segment& segment,
                                  const TensorInfo& tensor,
                                  ByteRange range) const;
  void SetLive(TensorInfo& tensor, bool live) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::uint64_t page_bytes_;
  mutable base::Mutex mutex_;
  PageAllocator pages_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<std::uint64_t, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  core::SegmentIndex next_segment_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t live_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t peak_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t tensor_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t used_pages_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t readable_pages_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

/// Whether programs only read the tensors. REQUIRES: valid specs.
bool IsReadOnly(std::span<const TensorSpec> specs);

/// `range` cut to the tensor when it is kWholeTensor. Errors: InvalidArgument that names the tensor
/// (empty, or beyond its end).
absl::StatusOr<ByteRange> CutRange(const TensorInfo& tensor, ByteRange range);

}  // namespace sluice::engine
