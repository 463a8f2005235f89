#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/sim/schedule/file_schedule.h"
#include "runtime/sim/schedule/page_layout.h"
#include "tools/lab/run/run_flags.h"
#include "tools/lab/run/run_report.h"

namespace sluice::tools {

/// A schedule as it is in its file, or with some of its tensors made again.
struct RunVariant {
  RunSetting setting;
  sim::PageLayout layout;
};

struct RunVariants {
  /// First the schedule as it is in its file.
  std::vector<RunVariant> all;
  /// Index of the first variant to run; all behind it run, too.
  std::size_t first = 0;

  std::span<const RunVariant> to_run() const { return std::span(all).subspan(first); }
};

/// Variants by RunFlags::recompute:
/// - kNone: the schedule as it is
/// - kAll: with all tensors made again that can be
/// - kPlanned: both of these, and with the choice of analysis::PlanRecompute
/// With kPlanned variants that cannot be laid out are left out. Errors: those of sim::LayOut, with
/// the file's name.
absl::StatusOr<RunVariants> MakeRunVariants(const RunFlags& flags, sim::FileSchedule schedule);

}  // namespace sluice::tools
