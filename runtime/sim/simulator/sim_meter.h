#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "runtime/core/core.h"
#include "runtime/sim/schedule/page_layout.h"
#include "runtime/sim/simulator/link_model.h"
#include "runtime/sim/simulator/simulator.h"

namespace sluice::sim {

/// Collects the figures of a simulation.
class SimMeter {
 public:
  SimMeter(const PageLayout& layout, const SimOptions& options)
      : layout_(layout), options_(options), op_stall_s_(layout.ops.size(), 0) {}

  void BeginIteration(double now);
  void EndIteration(double now, const std::vector<LinkModel>& links, const core::Core& core);
  void CountStall(std::uint32_t op, double seconds);
  void CountEvents(std::uint64_t events) { page_events_ += events; }
  void SetPlanSeconds(std::chrono::duration<double> seconds) { plan_s_ = seconds.count(); }
  void CountFailure() { ++ops_failed_; }
  SimReport Report(const core::Core& core) const;

 private:
  int SteadyIterations() const;

  const PageLayout& layout_;
  const SimOptions& options_;
  std::vector<double> op_stall_s_;
  std::vector<double> iteration_s_;
  std::vector<double> stall_s_;
  /// Use of the links up to the end of each iteration.
  std::vector<std::vector<LinkUse>> used_;
  /// Mappings up to the end of each iteration, by tier.
  std::vector<std::vector<core::MappingCounters>> mapped_;
  double begun_ = 0;
  double plan_s_ = 0;
  std::uint64_t page_events_ = 0;
  std::uint64_t ops_failed_ = 0;
};

}  // namespace sluice::sim
