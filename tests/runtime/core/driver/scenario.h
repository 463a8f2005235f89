#pragma once

#include <cstdint>
#include <string>

#include "tests/runtime/core/driver/virtual_driver.h"

namespace sluice::core {

/// Choices of a seed.
struct Scenario {
  DriverOptions driver;
  std::uint32_t threads = 1;
  std::uint32_t op_pages_max = 3;
  std::uint32_t pages = 24;
  std::uint64_t events = 2000;
  /// Whether ops repeat in iterations under keys. If not, every op is random.
  bool iterations = false;
  /// Whether threads ask for their next op before they wait for the current one.
  bool ask_ahead = false;
  /// Whether reservations and budget changes happen.
  bool budgets = false;
  /// Whether segments are created and freed.
  bool segments = false;
  /// Whether the last tier has no frames, or too few for all pages. The other pages stay above it.
  bool mixed = false;
  /// Whether plans come, at any time.
  bool plans = false;
  /// Failures among 1000 tasks.
  std::uint32_t faults_per_mille = 0;
  /// Whether all tasks into a tier fail for a while, once one has failed for want of space.
  bool long_faults = false;
};

/// Limits of a seed's choices.
struct ScenarioSizes {
  std::uint32_t op_pages_least = 1;
  std::uint32_t op_pages_most = 5;
  std::uint32_t pages_least = 6;
  std::uint32_t pages_most = 40;
  std::uint32_t copies_in_flight_most = 6;
};

Scenario RandomScenario(std::uint64_t seed, const ScenarioSizes& sizes = {});
/// A random scenario with a last tier that does not hold all pages.
Scenario MixedScenario(std::uint64_t seed);
std::string ToString(const Scenario& scenario);

}  // namespace sluice::core
