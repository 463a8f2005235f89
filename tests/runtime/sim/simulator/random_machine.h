#pragma once

#include <cstdint>
#include <string>

#include "runtime/sim/schedule/page_layout.h"
#include "runtime/sim/simulator/simulator.h"

namespace sluice::sim {

/// Choices of a seed: a schedule, and a machine on which it runs, often with not a frame to spare.
struct RandomRun {
  std::uint64_t seed = 0;
  std::string policy;
  FileSchedule schedule;
  PageLayout layout;
  /// Options without policy, fault, alter and observer.
  SimOptions options;
  /// Tiers of the core: one more than the machine has where ops work in the machine's last tier.
  core::TierIndex core_tiers = 0;
  /// Failures among 1000 copies.
  std::uint32_t faults_per_mille = 0;
  /// Ops among 1000 that ask for something else than the schedule says.
  std::uint32_t changes_per_mille = 0;
};

RandomRun MakeRandomRun(std::uint64_t seed);
/// Gives links more paths, some faster and some slower than the first.
void AddRandomPaths(RandomRun* run);
std::string ToString(const RandomRun& run);

/// Changes what an op asks for, so that it still fits.
void ChangeRequests(const PageLayout& layout,
                    std::uint64_t dice,
                    std::vector<core::PageRequest>* requests);

}  // namespace sluice::sim
