#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/core/plan/plan.h"

namespace sluice::core {

/// Time that a link has left in each step of a repeating iteration, in seconds. Steps are counted
/// on from one iteration to the next.
class LinkCalendar {
 public:
  /// Calendar of a link on which no copy takes any time.
  LinkCalendar() = default;
  LinkCalendar(std::span<const double> step_seconds, const PlanLink& link);

  /// The step in which `pages` are through that go out as early as possible from `from` on; `end`
  /// when they are not through before it.
  std::uint64_t OutDone(std::uint64_t from, std::uint64_t end, double pages) const;
  /// The latest step in which `pages` must begin to come in, to be there at `end`; `from` if no
  /// later step does.
  std::uint64_t InBegin(std::uint64_t from, std::uint64_t end, double pages) const;
  /// The latest step in which `pages` must begin to go out, to be through at `end`; `from` if no
  /// later step does.
  std::uint64_t OutBegin(std::uint64_t from, std::uint64_t end, double pages) const;
  /// Takes the time that OutDone and InBegin have found.
  void TakeOut(std::uint64_t from, std::uint64_t end, double pages);
  void TakeIn(std::uint64_t from, std::uint64_t end, double pages);

 private:
  double OutPages(std::size_t step) const;
  double InPages(std::size_t step) const;

  PlanLink link_;
  std::vector<double> in_;  ///< seconds left for page-ins; empty: no copy takes any time
  std::vector<double> out_;
  /// Seconds left for both; empty: the directions do not disturb each other.
  std::vector<double> both_;
};

}  // namespace sluice::core
