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

/// One access with everything looked up.
struct ResolvedAccess {
  std::shared_ptr<TensorInfo> tensor;
  std::shared_ptr<Segment> segment;
  TierId tier_id;
  core::TierIndex tier = 0;
  AccessMode mode = AccessMode::kRead;
  ByteRange range;            ///< within the tensor, not empty
  std::byte* base = nullptr;  ///< the segment's address in `tier` when contiguous, else null
  std::uint64_t discards = 0;
  std::optional<double> recompute_seconds;

  /// Within the segment.
  std::uint64_t begin() const { return tensor->offset + range.offset; }
  std::uint64_t end() const { return begin() + range.bytes; }
};

/// First home of a segment; both empty: none.
struct SegmentHome {
  std::shared_ptr<HomeFile> file;
  std::vector<HomePart> joined;
};

struct LiveBytes {
  std::uint64_t live = 0;
  std::uint64_t peak = 0;
  std::uint64_t padding = 0;
};

/// Every tensor of a Runtime: ids, names, places, and which of them hold content. Threads: any.
class TensorTable {
 public:
  explicit TensorTable(std::uint64_t page_bytes) : page_bytes_(page_bytes) {}

  /// The first byte of the file that a segment with a file home holds: with one that is only read
  /// its pages are those of the file. REQUIRES: valid specs with a file home.
  std::uint64_t FirstByteInFile(std::span<const TensorSpec> specs) const;
  /// Lays `specs` out in a new segment, whose tensors nobody can find before Publish. `view`: see
  /// Segment::Parts.
  /// REQUIRES: valid specs. Errors: ResourceExhausted (page indices used up).
  absl::StatusOr<std::shared_ptr<Segment>> Prepare(std::span<const TensorSpec> specs,
                                                   core::TierIndex lowest,
                                                   SegmentHome home,
                                                   std::optional<core::TierIndex> view = {});
  void Publish(const std::shared_ptr<Segment>& segment);
  /// Takes back what Prepare gave, instead of Publish.
  void Abandon(const Segment& segment);

  /// Null when there is no such tensor.
  std::shared_ptr<TensorInfo> Find(TensorId id) const;
  /// All there are now, in the order of their creation.
  std::vector<TensorId> Tensors() const;
  /// Errors: InvalidArgument (unknown tensor, bad range, a tier that does not exist or that the
  /// tensor may not be leased in), ResourceExhausted (no address range), Cancelled (closed).
  absl::StatusOr<std::vector<ResolvedAccess>> Resolve(std::span<const Access> accesses,
                                                      const TierSet& tiers) const;

  struct Freed {
    std::shared_ptr<TensorInfo> tensor;
    std::vector<PageRun> runs;
  };
  /// Forgets the tensor; the runs are the pages that no other tensor needs. Errors: NotFound.
  absl::StatusOr<Freed> Free(TensorId id);
  /// Gives page indices back.
  void OnPagesFreed(PageRun run);

  struct Discarded {
    std::shared_ptr<TensorInfo> tensor;
    ByteRange range;
    std::vector<PageRun> runs;
  };
  /// The pages all of whose bytes that belong to a tensor lie in the range. Errors: NotFound,
  /// InvalidArgument.
  absl::StatusOr<Discarded> Discard(TensorId id, ByteRange range);

  /// The tensor was granted for writing by a request made when it had seen `discards`.
  void MarkLive(TensorInfo& tensor, std::uint64_t discards);
  LiveBytes live_bytes() const;
  /// Pages of segments that are readable outside a lease.
  std::uint64_t readable_pages() const;
  /// The tensor's bytes at its addresses in `tier`. Errors: NotFound, ResourceExhausted (no address
  /// range), Cancelled (closed).
  absl::StatusOr<std::span<const std::byte>> AddressIn(core::TierIndex tier,
                                                       const TierSet& tiers,
                                                       TensorId id) const;

  /// Nothing is found any more, no address is handed out.
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

/// Whether the tensors are only read. REQUIRES: valid specs.
bool IsReadOnly(std::span<const TensorSpec> specs);

/// `range` cut to the tensor when it is kWholeTensor. Errors: InvalidArgument that names the tensor
/// (empty, or beyond its end).
absl::StatusOr<ByteRange> CutRange(const TensorInfo& tensor, ByteRange range);

}  // namespace sluice::engine
