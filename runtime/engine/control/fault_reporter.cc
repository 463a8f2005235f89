#include "runtime/engine/control/fault_reporter.h"

#include <string>

#include "base/strings.h"
#include "fmt/format.h"

namespace sluice::engine {

void FaultReporter::NoteSuccess(const TaskBook::RunningTask& task) {
  if (task.source < task.target) {
    faults_.ForgetAttempt(task.page);
  } else {
    faults_.ForgetPage(task.page);  // the page has bytes again
  }
  if (task.source >= task.target || faults_.OfTier(task.target).ok()) return;
  faults_.ForgetTier(task.target);
  const TierId tier = parts_.tiers->id(task.target);
  if (parts_.health->NoteTakesPages(tier)) {
    parts_.logger->Info(fmt::format("{} takes pages again", ToString(tier)));
  }
}

void FaultReporter::NoteFailure(const Completion& completion, const TaskBook::RunningTask& task) {
  const std::string target = ToString(parts_.tiers->id(task.target));
  if (repeated_.IsFirst(target, completion.status)) {
    parts_.logger->Warning(fmt::format("a transfer of tensor '{}' to {} failed: {}",
                                       parts_.owners->Owner(task.page)->NameAt(task.page),
                                       target,
                                       base::ToStd(completion.status.message())));
  }
  if (completion.failure == core::FailureKind::kSourceLost) {
    NoteLostSource(completion, task);
  } else if (task.source < task.target) {
    faults_.NoteTier(task.target, completion.status);  // the tier takes no page
  } else {
    faults_.NoteAttempt(task.page, {task.target, completion.status});
  }
}

void FaultReporter::NoteLostSource(const Completion& completion,
                                   const TaskBook::RunningTask& task) {
  if (task.source == core::kNoTier) return NoteFailedRefill(completion.status, task);
  faults_.NotePage(task.page, {task.source, completion.status});
}

/// Notes both causes: that of the refill, and that of the loss before it. The latter may also be a
/// copy that could not be read, which then stays.
void FaultReporter::NoteFailedRefill(const absl::Status& status,
                                     const TaskBook::RunningTask& task) {
  const auto both = [&](const absl::Status& before) {
    return fmt::format("{}; then {}", base::ToStd(before.message()), base::ToStd(status.message()));
  };
  const PageFault lost = faults_.OfPage(task.page);
  if (lost.tier == core::kNoTier) {
    faults_.NotePage(task.page, {core::kNoTier, status});
  } else {
    faults_.NotePage(task.page, {lost.tier, absl::DataLossError(both(lost.cause))});
  }
  const PageFault refused = faults_.AttemptOf(task.page);
  if (refused.cause.ok()) return;
  faults_.NoteAttempt(task.page, {refused.tier, absl::UnavailableError(both(refused.cause))});
}

void FaultReporter::ForgetPages(PageRun run) {
  for (PageIndex page = run.first; page < run.first + run.pages; ++page) faults_.ForgetPage(page);
}

void FaultReporter::ReportLost(const core::LosePage& loss) {
  PageFault fault = faults_.OfPage(loss.page);
  if (fault.cause.ok()) fault = {loss.tier, faults_.AttemptOf(loss.page).cause};
  faults_.NotePage(loss.page, fault);
  parts_.owners->Owner(loss.page)->ForEachTensorIn(
      loss.page, [&](const TensorInfo& tensor, ByteRange range) {
        const PageLostEvent event{tensor.spec.name, range, fault.cause};
        if (repeated_.IsFirst("content is lost", fault.cause)) {
          parts_.logger->Error(fmt::format("{} bytes at offset {} of tensor '{}' are lost: {}",
                                           range.bytes,
                                           range.offset,
                                           tensor.spec.name,
                                           base::ToStd(fault.cause.message())));
        }
        parts_.health->NoteLostPage(event);
        if (parts_.listener != nullptr) parts_.listener->OnPageLost(event);
      });
}

void FaultReporter::ReportFenced(const core::FenceTier& fence) {
  const TierFencedEvent event{parts_.tiers->id(fence.tier), faults_.OfTier(fence.tier)};
  if (repeated_.IsFirst(ToString(event.tier), event.cause)) {
    parts_.logger->Error(fmt::format(
        "{} takes no pages: {}", ToString(event.tier), base::ToStd(event.cause.message())));
  }
  parts_.health->NoteFenced(event);
  if (parts_.listener != nullptr) parts_.listener->OnTierFenced(event);
}

void FaultReporter::ReportRepeated() {
  for (const std::string& line : repeated_.Take()) parts_.logger->Warning(line);
}

}  // namespace sluice::engine
