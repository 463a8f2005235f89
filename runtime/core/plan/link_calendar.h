#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/core/plan/plan.h"

namespace sluice::core {

/// How much of a link each step of a repeating iteration has left, in seconds. Steps are counted on
/// from one iteration to the next.
class LinkCalendar {
 public:
  /// Of a link that nothing takes any time.
  LinkCalendar() = default;
  LinkCalendar(std::span<const double> step_seconds, const PlanLink& link);

  /// The step in which `pages` that go out from `from` on, as early as possible, are through; `end`
  /// when they are not before that.
  std::uint64_t OutDone(std::uint64_t from, std::uint64_t end, double pages) const;
  /// The step in which `pages` must begin to come in, as late as possible, to be there at `end`;
  /// `from` when they must begin no later.
  std::uint64_t InBegin(std::uint64_t from, std::uint64_t end, double pages) const;
  /// Likewise out, as late as possible.
  std::uint64_t OutBegin(std::uint64_t from, std::uint64_t end, double pages) const;
  /// Takes what OutDone and InBegin have found.
  void TakeOut(std::uint64_t from, std::uint64_t end, double pages);
  void TakeIn(std::uint64_t from, std::uint64_t end, double pages);

 private:
  double OutPages(std::size_t step) const;
  double InPages(std::size_t step) const;

  PlanLink link_;
  std::vector<double> in_;  ///< empty: nothing takes any time
  std::vector<double> out_;
  std::vector<double> both_;  ///< empty: the directions do not disturb each other
};

}  // namespace sluice::core
