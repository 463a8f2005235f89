#include "runtime/sim/simulator/plan_times.h"

#include <algorithm>

namespace sluice::sim {

void AddTimes(const PageLayout& layout,
              const std::vector<core::RecordedStep>& steps,
              core::PlanInput* input) {
  const std::vector<OpTime> times = UnhinderedTimes(layout);
  double end = 0;
  for (const OpTime& time : times) end = std::max(end, time.end_s);
  std::vector<core::StepTime> step_times;
  for (const core::RecordedStep& step : steps) {
    step_times.push_back({times[step.name].begin_s, times[step.name].end_s});
  }
  core::SetStepTimes(step_times, end, input);
}

void AddLinks(const Machine& machine, std::uint64_t page_bytes, core::PlanInput* input) {
  const auto page = static_cast<double>(page_bytes);
  for (const MachineLink& link : machine.links) {
    const MachinePath rates = Together(link);
    const bool shared = rates.both_bytes_per_s > 0;
    input->links.push_back({.in_s = page / rates.in_bytes_per_s,
                            .out_s = page / rates.out_bytes_per_s,
                            .both_s = shared ? page / rates.both_bytes_per_s : 0});
  }
}

}  // namespace sluice::sim
