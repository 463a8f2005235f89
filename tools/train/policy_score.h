#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/train/run_report.h"
#include "tools/train/steps.h"

namespace sluice::tools {

/// How the run under another policy compares with this one, block by block.
/// Threads: externally synchronised.
class PolicyScore {
 public:
  explicit PolicyScore(std::string policy) : policy_(std::move(policy)) {}

  const std::string& policy() const { return policy_; }
  /// Before the first step.
  void AddFirstValidation(float mine, float theirs);
  /// The same steps of both.
  void AddBlock(std::span<const StepOutcome> mine, std::span<const StepOutcome> theirs);
  /// Times so far no longer count; losses do.
  void ForgetTimes();
  /// How the losses differ, as a sentence; empty while they do not.
  const std::string& difference() const { return difference_; }

  PolicyReport Report() const;

 private:
  std::string Where() const { return "under " + policy_; }

  std::string policy_;
  int steps_ = 0;
  std::vector<double> seconds_;  ///< of each step that counts
  std::vector<double> ratios_;   ///< of each such block, its time over this run's
  std::string difference_;
};

}  // namespace sluice::tools
