#include "tools/train/policy_comparison.h"

#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "tools/median.h"
#include "tools/train/train_child.h"

namespace sluice::tools {

absl::StatusOr<std::unique_ptr<PolicyComparison>> PolicyComparison::Start(
    std::span<const std::string> policies, const ConfigText& config, const gpt::Text& text) {
  auto comparison = std::make_unique<PolicyComparison>();
  for (const std::string& policy : policies) {
    const ConfigText under = UnderPolicy(config, policy);
    auto run = ChildRun::Start({.word = kPagedChildWord, .config = under, .text = text});
    if (!run.ok()) return base::Annotate(run.status(), "the run under policy " + policy);
    comparison->rivals_.push_back({.policy = policy, .run = *std::move(run)});
  }
  return comparison;
}

void PolicyComparison::CompareFirstValidation(float val_loss) {
  const StepOutcome mine{.val_loss = val_loss, .validated = 1};
  for (const Rival& rival : rivals_) {
    if (!difference_.empty()) return;
    difference_ = DescribeDifference(
        0, mine, {.val_loss = rival.run.first_val_loss(), .validated = 1}, "under " + rival.policy);
  }
}

absl::Status PolicyComparison::RunBlock(std::span<const StepOutcome> mine) {
  for (Rival& rival : rivals_) {
    SLUICE_RETURN_IF_ERROR(
        base::Annotate(RunBlock(mine, &rival), "the run under policy " + rival.policy));
  }
  steps_ += static_cast<int>(mine.size());
  return absl::OkStatus();
}

absl::Status PolicyComparison::RunBlock(std::span<const StepOutcome> mine, Rival* rival) {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<StepOutcome> theirs,
                          rival->run.RunSteps(static_cast<int>(mine.size())));
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    rival->seconds.push_back(theirs[i].seconds);
    if (!difference_.empty()) continue;
    difference_ = DescribeDifference(
        steps_ + static_cast<int>(i) + 1, mine[i], theirs[i], "under " + rival->policy);
  }
  rival->ratios.push_back(SumSeconds(theirs) / SumSeconds(mine));
  return absl::OkStatus();
}

absl::Status PolicyComparison::SetRate(double bytes_per_s) {
  for (Rival& rival : rivals_) {
    SLUICE_RETURN_IF_ERROR(rival.run.SetRate(bytes_per_s));
    rival.seconds.clear();
    rival.ratios.clear();
  }
  return absl::OkStatus();
}

std::vector<PolicyReport> PolicyComparison::Report() const {
  std::vector<PolicyReport> reports;
  for (const Rival& rival : rivals_) {
    reports.push_back({.policy = rival.policy,
                       .step_seconds = Median(rival.seconds),
                       .times_as_long = Median(rival.ratios)});
  }
  return reports;
}

}  // namespace sluice::tools
