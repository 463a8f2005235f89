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
struct PageRun {
  PageIndex first_page = 0;
  std::uint32_t pages = 0;
  TensorKind kind = TensorKind::kOther;
  bool persistent = false;
  /// It has content from the start, in a file: so the schedule says, or it persists though no op
  /// ever writes it.
  bool file_home = false;
  /// Ops that touch it: a run that is not persistent ends with the last of them.
  std::uint32_t ops = 0;
};

/// An op of the schedule, by pages.
struct PagedOp {
  /// As the schedule file has them.
  std::uint64_t id = 0;
  std::string name;
  FileLine line;
  std::uint32_t lane = 0;
  double seconds = 0;
  std::vector<core::PageRequest> requests;
  /// Runs it touches that are not persistent.
  std::vector<std::uint32_t> runs;
  /// Ops that must end first.
  std::vector<std::uint32_t> after;
};

inline constexpr std::uint32_t kNoTensor = UINT32_MAX;

/// A schedule, by pages: tensors have pages of their own unless they are of one segment.
struct PageLayout {
  std::uint64_t page_bytes = 0;
  PageIndex pages = 0;
  /// By page: the first tensor of the schedule that has bytes in it; kNoTensor: a gap of a segment.
  std::vector<std::uint32_t> tensors;
  std::vector<std::string> lanes;
  std::vector<PageRun> runs;
  std::vector<PagedOp> ops;
};

struct LayoutOptions {
  std::uint64_t page_bytes = 0;
  /// Fastest first; requests name them by their place.
  std::vector<TierKind> tiers;
  /// Bounds of memory.
  std::uint64_t pages_max = std::uint64_t{1} << 22;
  std::uint64_t requests_max = std::uint64_t{1} << 24;
};

/// Errors: InvalidArgument (an op in a tier that there is not, or in the last one, where nothing
/// computes), ResourceExhausted (more pages or requests than allowed).
absl::StatusOr<PageLayout> LayOut(const FileSchedule& schedule, const LayoutOptions& options);

struct OpTime {
  double begin_s = 0;
  double end_s = 0;
};
/// When each op of an iteration runs if none ever waits for a page.
std::vector<OpTime> UnhinderedTimes(const PageLayout& layout);

/// "op 7 (l0.attention)".
std::string Describe(const PagedOp& op);

/// The time of one iteration if no op ever waited for a page: the longest chain of ops that wait
/// for each other.
double ComputeSeconds(const PageLayout& layout);

}  // namespace sluice::sim
