#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/sim/schedule/file_schedule.h"

namespace sluice::sim {

/// Unit and limit in which the bytes of a schedule are counted.
struct ExtentOptions {
  /// Size of the whole pages to which parts are widened; 1: every byte counts for itself.
  std::uint64_t page_bytes = 1;
  /// The most extents that all accesses together may touch; bounds memory and time.
  std::uint64_t visits_max = std::uint64_t{1} << 24;
};

/// The bytes of a schedule, cut into pieces that no tensor and no access cuts further. Each is
/// touched as a whole or not at all, so sizes are exact though there are few pieces.
class Extents {
 public:
  /// Indices [first, last) of extents that lie one behind the other.
  struct Range {
    std::uint32_t first = 0;
    std::uint32_t last = 0;
  };

  /// Cuts a schedule into extents. Errors: ResourceExhausted (cut into too many pieces).
  static absl::StatusOr<Extents> Create(const FileSchedule& schedule, const ExtentOptions& options);

  std::size_t size() const { return bytes_.size(); }
  std::uint64_t bytes(std::uint32_t extent) const { return bytes_[extent]; }
  Range OfTensor(std::uint32_t tensor) const { return tensors_[tensor]; }
  Range OfAccess(const FileAccess& access) const;

 private:
  /// A byte of a space: a segment, or a tensor that is in none.
  struct SpaceOffset {
    std::uint32_t space = 0;
    std::uint64_t offset = 0;
    friend auto operator<=>(const SpaceOffset&, const SpaceOffset&) = default;
  };

  Extents(const FileSchedule& schedule, std::uint64_t page_bytes);
  void AddCuts(const FileAccess& access);
  void MakeExtents();
  absl::Status CountVisits(const FileSchedule& schedule, std::uint64_t visits_max) const;

  const std::uint64_t page_bytes_;
  std::vector<SpaceOffset> places_;
  /// Cuts, sorted. Extent i reaches from cut i to cut i + 1. No extent is behind the last cut of a
  /// space.
  std::vector<SpaceOffset> cuts_;
  std::vector<std::uint64_t> bytes_;
  std::vector<Range> tensors_;
};

/// The extents that each op touches, each once.
struct OpVisits {
  /// Begins of the extents of each op. Op i has extents[begin[i]] to extents[begin[i + 1]].
  std::vector<std::size_t> begin;
  std::vector<std::uint32_t> extents;

  std::span<const std::uint32_t> Of(std::size_t op) const {
    return std::span(extents).subspan(begin[op], begin[op + 1] - begin[op]);
  }
};
OpVisits CollectVisits(const FileSchedule& schedule, const Extents& extents);

}  // namespace sluice::sim
