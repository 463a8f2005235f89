#include "tools/train/policy_score.h"

#include <cmath>
#include <cstddef>

#include "tools/median.h"

namespace sluice::tools {
namespace {

/// The median distance from the median.
double SpreadOf(std::vector<double> values) {
  const double middle = Median(values);
  for (double& value : values) value = std::abs(value - middle);
  return Median(std::move(values));
}

}  // namespace

void PolicyScore::AddFirstValidation(float mine, float theirs) {
  difference_ = DescribeDifference(
      0, {.val_loss = mine, .validated = 1}, {.val_loss = theirs, .validated = 1}, Where());
}

void PolicyScore::AddBlock(std::span<const StepOutcome> mine, std::span<const StepOutcome> theirs) {
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    ++steps_;
    seconds_.push_back(theirs[i].seconds);
    if (difference_.empty()) difference_ = DescribeDifference(steps_, mine[i], theirs[i], Where());
  }
  ratios_.push_back(SumSeconds(theirs) / SumSeconds(mine));
}

void PolicyScore::ForgetTimes() {
  seconds_.clear();
  ratios_.clear();
}

PolicyReport PolicyScore::Report() const {
  return {.policy = policy_,
          .blocks = static_cast<int>(ratios_.size()),
          .step_seconds = Median(seconds_),
          .times_as_long = Median(ratios_),
          .times_spread = SpreadOf(ratios_),
          .difference = difference_};
}

}  // namespace sluice::tools
