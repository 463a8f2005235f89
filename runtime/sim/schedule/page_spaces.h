#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/sim/schedule/file_schedule.h"
#include "sluice/policy.h"

namespace sluice::sim {

/// Places of the tensors of a schedule. Each segment, and each tensor that is in none, begins with
/// a page of its own.
class PageSpaces {
 public:
  /// Pages [first, last).
  struct Range {
    PageIndex first = 0;
    PageIndex last = 0;
  };
  /// Facts of the tensors of a page together.
  struct Facts {
    TensorKind kind = TensorKind::kOther;
    bool persistent = false;
    bool file_home = false;
    friend bool operator==(const Facts&, const Facts&) = default;
  };

  /// Places the tensors. Errors: ResourceExhausted (more than `pages_max` pages, or so many that
  /// overlap that visiting those of each tensor would never end).
  static absl::StatusOr<PageSpaces> Create(const FileSchedule& schedule,
                                           std::uint64_t page_bytes,
                                           std::uint64_t pages_max);

  PageIndex pages() const { return static_cast<PageIndex>(used_.size()); }
  /// The pages that an access touches.
  Range OfAccess(const FileAccess& access) const;
  /// Bytes of the access that lie in `page`.
  std::uint64_t BytesIn(const FileAccess& access, PageIndex page) const;
  /// Bytes of all tensors that lie in `page`.
  std::uint64_t BytesUsed(PageIndex page) const { return used_[page]; }
  /// The first tensor of the schedule that has bytes in `page`; UINT32_MAX: none has.
  std::uint32_t TensorOf(PageIndex page) const { return tensors_[page]; }
  const Facts& FactsOf(PageIndex page) const { return facts_[page]; }

 private:
  explicit PageSpaces(std::uint64_t page_bytes) : page_bytes_(page_bytes) {}
  absl::Status AddTensor(const FileTensor& tensor, std::uint64_t first_page, std::uint64_t* visits);
  void AddFacts(const FileTensor& tensor, PageIndex page);

  std::uint64_t page_bytes_;
  /// First byte of each tensor, counted over all pages.
  std::vector<std::uint64_t> begin_;
  std::vector<std::uint64_t> used_;
  std::vector<std::uint32_t> tensors_;
  std::vector<Facts> facts_;
};

}  // namespace sluice::sim
