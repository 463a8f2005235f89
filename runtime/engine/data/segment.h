#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "runtime/core/types.h"
#include "runtime/engine/data/memory_tier.h"
#include "runtime/engine/report/named_range.h"
#include "runtime/engine/setup/home_file.h"
#include "sluice/tensor.h"

namespace sluice::engine {

/// A tensor: the user's description, and its place in the segment.
struct TensorInfo {
  TensorId id;
  TensorSpec spec;
  core::SegmentIndex segment = 0;
  std::uint64_t offset = 0;  ///< first byte within the segment
  std::uint64_t bytes = 0;
  std::atomic<bool> alive{true};  ///< false once freed

  // Guarded by the TensorTable that owns the tensor.
  bool live = false;           ///< true if the tensor holds content that somebody wrote
  std::uint64_t discards = 0;  ///< whole discards so far

  std::uint64_t end() const { return offset + bytes; }
};

/// Bytes of a file home that is only read, which are a part of a segment.
struct HomePart {
  std::shared_ptr<const HomeFile> file;
  std::uint64_t offset = 0;  ///< first byte, as HomeFile counts
  std::uint64_t bytes = 0;
};

/// A run of pages with one home, the tensors in them, and one stable address per memory tier.
/// Immutable but for the address ranges. Threads: any.
class Segment {
 public:
  struct Parts {
    core::SegmentIndex index = 0;
    PageIndex first_page = 0;
    std::uint32_t pages = 0;
    core::TierIndex lowest = 0;
    std::uint64_t page_bytes = 0;
    std::vector<std::shared_ptr<TensorInfo>>
        tensors;                     ///< tensors by offset, disjoint, at least one
    std::shared_ptr<HomeFile> file;  ///< null: born empty, or joined
    std::vector<HomePart> joined;    ///< parts of a home, one behind the other
    bool read_only = false;          ///< true if leases only read
    /// The tier whose addresses are readable outside a lease; none: no tier's are.
    std::optional<core::TierIndex> view;

    bool has_home() const { return file != nullptr || !joined.empty(); }
  };
  explicit Segment(Parts parts) : parts_(std::move(parts)) {}

  const Parts& parts() const { return parts_; }
  std::uint64_t page_bytes() const { return parts_.page_bytes; }
  PageIndex end_page() const { return parts_.first_page + parts_.pages; }
  /// The page's place within the segment.
  std::uint64_t PageWithin(PageIndex page) const { return page - parts_.first_page; }
  TensorKind kind() const { return parts_.tensors.front()->spec.kind; }
  /// Whether every tensor can refill its bytes.
  bool reproducible() const;

  bool readable() const { return parts_.view.has_value(); }
  /// Whether the addresses in `tier` are readable outside a lease.
  bool Shows(core::TierIndex tier) const { return parts_.view == tier; }

  /// Calls `visit(tensor, range of the tensor's bytes in the page)` for each tensor in `page` that
  /// was not freed.
  template <typename Visit>
  void ForEachTensorIn(PageIndex page, Visit visit) const;
  /// Names the tensor that starts the page, for messages and traces.
  std::string NameAt(PageIndex page) const;

  /// The segment's first address in `tier`, reserved on first use.
  absl::StatusOr<std::byte*> EnsureRange(core::TierIndex tier, MemoryTier& memory);
  /// REQUIRES: EnsureRange succeeded for `tier`.
  MappedRange& range(core::TierIndex tier) const;

  /// The pages' addresses that are readable outside a lease. REQUIRES: readable(), and EnsureRange
  /// succeeded for that tier.
  std::span<std::byte> ViewOf(PageIndex first, std::uint32_t pages = 1) const;
  /// Notes that the file home cannot be mapped.
  void HideHome() { home_hidden_ = true; }
  bool home_hidden() const { return home_hidden_; }
  /// Begins a lease that may write the pages at the view's addresses. They are writable until this
  /// lease and every other one that has begun have ended. Errors: ResourceExhausted
  /// (vm.max_map_count).
  absl::Status BeginWrite(PageIndex first, std::uint32_t pages);
  /// Ends such a lease. REQUIRES: BeginWrite succeeded for the same pages.
  void EndWrite(PageIndex first, std::uint32_t pages);

 private:
  std::size_t FirstTensorReaching(std::uint64_t offset) const;
  NamedRange::Facts NamesAt(const std::byte* base) const;

  const Parts parts_;
  std::atomic<bool> home_hidden_{false};
  mutable base::Mutex writers_mutex_;
  /// Leases that may write each page.
  absl::flat_hash_map<PageIndex, std::uint32_t> writers_ ABSL_GUARDED_BY(writers_mutex_);
  mutable base::Mutex mutex_;
  std::array<std::unique_ptr<MappedRange>, core::kTiersMax> ranges_ ABSL_GUARDED_BY(mutex_);
  /// Names of the tensors, for stray touches; destroyed before the ranges.
  std::array<std::unique_ptr<NamedRange>, core::kTiersMax> names_ ABSL_GUARDED_BY(mutex_);
};

template <typename Visit>
void Segment::ForEachTensorIn(PageIndex page, Visit visit) const {
  const std::uint64_t begin = PageWithin(page) * page_bytes();
  const std::uint64_t end = begin + page_bytes();
  for (std::size_t i = FirstTensorReaching(begin); i < parts_.tensors.size(); ++i) {
    const TensorInfo& tensor = *parts_.tensors[i];
    if (tensor.offset >= end) return;
    if (!tensor.alive) continue;
    const std::uint64_t from = tensor.offset > begin ? tensor.offset : begin;
    const std::uint64_t to = tensor.end() < end ? tensor.end() : end;
    visit(tensor, ByteRange{from - tensor.offset, to - from});
  }
}

}  // namespace sluice::engine
