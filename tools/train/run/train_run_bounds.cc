// Bounds of a run's steps, from the schedules that the Runtime recorded.

#include <algorithm>
#include <limits>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "tools/train/run/train_run.h"

namespace sluice::tools {

absl::Status TrainRun::KeepOpTimes(std::size_t followers) {
  if (report_.steps.size() <= followers) return absl::OkStatus();
  const StepRecord& step = report_.steps[report_.steps.size() - 1 - followers];
  if (!step.judged) return absl::OkStatus();
  const absl::StatusOr<Schedule> schedule = parts_.session.runtime().RecordedSchedule(step.key);
  // A step with too many ops has no recorded schedule.
  if (absl::IsNotFound(schedule.status())) return absl::OkStatus();
  if (schedule.ok()) op_times_.Add(*schedule);
  return schedule.status();
}

absl::Status TrainRun::FillBounds() {
  absl::StatusOr<Schedule> recorded = parts_.session.runtime().RecordedSchedule(MainKey(report_));
  if (absl::IsNotFound(recorded.status())) {
    parts_.console.Print(
        fmt::format("no bound is known: {}\n", base::ToStd(recorded.status().message())));
    return absl::OkStatus();
  }
  SLUICE_ASSIGN_OR_RETURN(Schedule schedule, std::move(recorded));
  report_.bounds = ComputeLinkBounds(schedule, parts_.session.settings().runtime);
  for (auto& [name, bound] : report_.bounds) {
    bound.seconds = BoundSeconds(bound.bytes, parts_.session.rates().at(name));
  }
  op_times_.SetLeast(&schedule);
  report_.bound_seconds = std::max(VolumeBoundSeconds(report_),
                                   ScheduleBoundSeconds(std::move(schedule),
                                                        parts_.session.settings().runtime,
                                                        parts_.session.rates(),
                                                        SecondsOfOpsMax()));
  return absl::OkStatus();
}

double TrainRun::SecondsOfOpsMax() const {
  constexpr double kNoLimit = std::numeric_limits<double>::infinity();
  // A run in RAM recomputes nothing, so its steps differ if this run recomputes.
  const bool alike = parts_.session.settings().train.recompute == gpt::Recompute::kNone;
  if (parts_.verifier == nullptr || !alike) return kNoLimit;
  return parts_.verifier->least_ram_seconds().value_or(kNoLimit);
}

}  // namespace sluice::tools
