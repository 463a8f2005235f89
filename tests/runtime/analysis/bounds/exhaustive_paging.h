#pragma once

#include <cstdint>
#include <vector>

#include "sluice/schedule.h"

namespace sluice::analysis {

/// The least transfers of a tiny schedule. The search tries every choice of pages to keep at every
/// op. It shares nothing with the code under test: it follows bytes one by one through the unrolled
/// iterations. hbm is above the link, everything else below. Tensors lie within one page of their
/// segment.
class ExhaustivePaging {
 public:
  explicit ExhaustivePaging(const Schedule& schedule);

  struct Run {
    std::uint64_t capacity = 0;
    int iterations = 1;
    /// Whether the tier is empty at first. If not, it holds whatever suits best, at no cost.
    bool start_empty = false;
  };
  std::uint64_t LeastFetches(const Run& run) const;
  std::uint64_t LeastWrites(const Run& run) const;

  /// Pages of the largest op above the link.
  std::uint32_t largest_op() const;

 private:
  using Mask = std::uint32_t;  ///< one bit per page

  /// Pages around one op of the steady iteration.
  struct Moment {
    Mask above = 0;         ///< pages used above
    Mask below = 0;         ///< pages used below
    Mask written = 0;       ///< pages of these that were written
    Mask alive_before = 0;  ///< pages with content that is still needed, just before the op
    /// Pages with content that is still needed, after the op and its discards.
    Mask alive_after = 0;
  };

  bool IsAlive(const Schedule& schedule,
               std::uint32_t segment,
               std::uint64_t byte,
               std::size_t op,
               bool after) const;

  std::uint32_t pages_ = 0;
  std::vector<Moment> moments_;
};

}  // namespace sluice::analysis
