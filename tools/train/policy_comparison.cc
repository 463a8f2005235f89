#include "tools/train/policy_comparison.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "tools/train/train_child.h"

namespace sluice::tools {

absl::StatusOr<std::unique_ptr<PolicyComparison>> PolicyComparison::Start(
    std::span<const std::string> policies, const ConfigText& config, const gpt::Text& text) {
  auto comparison = std::make_unique<PolicyComparison>();
  for (const std::string& policy : policies) {
    const ConfigText under = UnderPolicy(config, policy);
    auto run = ChildRun::Start({.word = kPagedChildWord, .config = under, .text = text});
    if (!run.ok()) return base::Annotate(run.status(), "the run under policy " + policy);
    comparison->rivals_.push_back({.score = PolicyScore(policy), .run = *std::move(run)});
  }
  return comparison;
}

void PolicyComparison::CompareFirstValidation(float val_loss) {
  for (Rival& rival : rivals_) {
    rival.score.AddFirstValidation(val_loss, rival.run->first_val_loss());
  }
}

void PolicyComparison::RunBlock(std::span<const StepOutcome> mine,
                                const std::function<bool()>& stop) {
  for (std::size_t i = 0; i < rivals_.size() && !stop(); ++i) {
    RunBlock(mine, &rivals_[backwards_ ? rivals_.size() - 1 - i : i]);
  }
  backwards_ = !backwards_;
}

void PolicyComparison::RunBlock(std::span<const StepOutcome> mine, Rival* rival) {
  if (!rival->run.has_value()) return;
  const auto theirs = rival->run->RunSteps(static_cast<int>(mine.size()));
  if (theirs.ok()) {
    rival->score.AddBlock(mine, *theirs);
  } else {
    Note(theirs.status(), rival);
  }
}

void PolicyComparison::SetRate(double bytes_per_s) {
  for (Rival& rival : rivals_) {
    rival.score.ForgetTimes();
    if (rival.run.has_value()) Note(rival.run->SetRate(bytes_per_s), &rival);
  }
}

void PolicyComparison::Note(const absl::Status& status, Rival* rival) {
  if (status.ok()) return;
  rival->failure = base::ToStd(status.message());
  rival->run.reset();
}

bool PolicyComparison::Differs() const {
  return std::any_of(rivals_.begin(), rivals_.end(), [](const Rival& rival) {
    return !rival.score.difference().empty();
  });
}

std::vector<PolicyReport> PolicyComparison::Report() const {
  std::vector<PolicyReport> reports;
  for (const Rival& rival : rivals_) {
    reports.push_back(rival.score.Report());
    reports.back().failure = rival.failure;
  }
  return reports;
}

}  // namespace sluice::tools
