#include "tests/runtime/core/driver/random_faults.h"

namespace sluice::core {

bool RandomFaults::MayLoseSource(const SimTask& task) const {
  if (task.fill() != nullptr) {
    return task.fill()->kind == FillKind::kFile || task.fill()->kind == FillKind::kReproduce;
  }
  const StartCopy* copy = task.copy();
  if (copy == nullptr) return false;
  // No other reader of the frame may exist, who would have to see the loss too.
  const SimFrame& source = driver_->frames().frame(copy->source, copy->source_frame);
  return source.pins == 0 && source.readers == 1;
}

std::optional<FailureKind> RandomFaults::Next(const SimTask& task) {
  if (driver_->now() < full_until_ && task.target == full_tier_ && task.copy() != nullptr) {
    return FailureKind::kTargetFull;
  }
  if (!random_->Chance(scenario_->faults_per_mille)) return std::nullopt;
  const std::uint64_t dice = random_->Below(3);
  if (dice == 0 && MayLoseSource(task)) return FailureKind::kSourceLost;
  if (task.copy() == nullptr) return FailureKind::kTargetFailed;
  if (dice == 2)
    return random_->Chance(500) ? FailureKind::kSourceRefused : FailureKind::kTargetFailed;
  if (scenario_->long_faults) {
    full_tier_ = task.target;
    full_until_ = driver_->now() + 1000;
  }
  return FailureKind::kTargetFull;
}

}  // namespace sluice::core
