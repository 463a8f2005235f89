#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/core/events.h"
#include "runtime/sim/schedule/file_schedule.h"

namespace sluice::sim {

/// Pages one behind the other that come into being and cease to be together.
struct LayoutRun {
  PageIndex first_page = 0;
  std::uint32_t pages = 0;
  TensorKind kind = TensorKind::kOther;
  bool persistent = false;
  /// Whether the run has content from the start, in a file: the schedule says so, or the run
  /// persists though no op ever writes it.
  bool file_home = false;
  /// Number of ops that touch the run. A run that is not persistent ends with the last of them.
  std::uint32_t ops = 0;
};

/// An op of the schedule, by pages.
struct PagedOp {
  /// Id and name as the schedule file has them.
  std::uint64_t id = 0;
  std::string name;
  FileLine line;
  std::uint32_t lane = 0;
  double seconds = 0;
  std::vector<core::PageRequest> requests;
  /// Runs that the op touches and that are not persistent.
  std::vector<std::uint32_t> runs;
  /// Ops that must end first.
  std::vector<std::uint32_t> after;
};

inline constexpr std::uint32_t kNoTensor = UINT32_MAX;

/// A schedule, by pages: tensors have pages of their own unless they are of one segment.
struct PageLayout {
  std::uint64_t page_bytes = 0;
  PageIndex pages = 0;
  /// The first tensor of the schedule with bytes in each page; kNoTensor: a gap of a segment.
  std::vector<std::uint32_t> tensors;
  std::vector<std::string> lanes;
  std::vector<LayoutRun> runs;
  std::vector<PagedOp> ops;
};

struct LayoutOptions {
  std::uint64_t page_bytes = 0;
  /// Tiers, fastest first. Requests name them by their place.
  std::vector<TierKind> tiers;
  /// Limits that bound the memory.
  std::uint64_t pages_max = std::uint64_t{1} << 22;
  std::uint64_t requests_max = std::uint64_t{1} << 24;
};

/// Lays out a schedule. Errors: InvalidArgument (an op in a tier that does not exist),
/// ResourceExhausted (more pages or requests than allowed).
absl::StatusOr<PageLayout> LayOut(const FileSchedule& schedule, const LayoutOptions& options);

/// Whether an op has pages in the tier.
bool WorksIn(const PageLayout& layout, core::TierIndex tier);

struct OpTime {
  double begin_s = 0;
  double end_s = 0;
};
/// Times at which each op of an iteration runs if none ever waits for a page.
std::vector<OpTime> UnhinderedTimes(const PageLayout& layout);

/// Name of an op in messages: "op 7 (l0.attention)".
std::string Describe(const PagedOp& op);

/// The time of one iteration if no op ever waited for a page: the longest chain of ops that wait
/// for each other.
double ComputeSeconds(const PageLayout& layout);

}  // namespace sluice::sim
