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
  /// Those to run are this one and all behind it.
  std::size_t first = 0;

  std::span<const RunVariant> to_run() const { return std::span(all).subspan(first); }
};

/// By RunFlags::recompute: the schedule as it is; with all made again that can be; or both, and
/// with what analysis::PlanRecompute has chosen. Where there is a choice, what cannot be laid out
/// is left out. Errors: as sim::LayOut, with the file's name.
absl::StatusOr<RunVariants> MakeRunVariants(const RunFlags& flags, sim::FileSchedule schedule);

}  // namespace sluice::tools
