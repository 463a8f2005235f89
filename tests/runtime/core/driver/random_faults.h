#pragma once

#include <cstdint>
#include <optional>

#include "runtime/core/events.h"
#include "tests/runtime/core/driver/random_choices.h"
#include "tests/runtime/core/driver/scenario.h"
#include "tests/runtime/core/driver/virtual_driver.h"

namespace sluice::core {

/// Failures of a random program's tasks. A tier may take no copies for a while.
class RandomFaults {
 public:
  RandomFaults(const Scenario* scenario, RandomChoices* random, const VirtualDriver* driver)
      : scenario_(scenario), random_(random), driver_(driver) {}

  /// Failure with which the task ends; none if it is done.
  std::optional<FailureKind> Next(const SimTask& task);

 private:
  bool MayLoseSource(const SimTask& task) const;

  const Scenario* scenario_;
  RandomChoices* random_;
  const VirtualDriver* driver_;
  TierIndex full_tier_ = kNoTier;
  std::uint64_t full_until_ = 0;
};

}  // namespace sluice::core
