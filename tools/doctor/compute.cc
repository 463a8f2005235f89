#include <memory>

#include "base/status.h"
#include "base/thread.h"
#include "fmt/format.h"
#include "numa/memory_limits.h"
#include "numa/memory_sum.h"
#include "runtime/engine/setup/memory_needs.h"
#include "tools/doctor/facts.h"
#include "tools/train/settings/memory_check.h"
#include "workloads/gpt/compute/compute_threads.h"

namespace sluice::tools {

namespace {

/// oneDNN ends the process where it finds no memory.
absl::Status CheckProducts(int threads) {
  numa::MemorySum sum;
  engine::AddThreads(static_cast<std::uint64_t>(threads), "that compute", &sum);
  AddProducts(threads, &sum);
  SLUICE_ASSIGN_OR_RETURN(const numa::MemoryLimits limits, numa::ReadMemoryLimits());
  return numa::CheckFits(sum, limits, "the measurement", "name fewer processors with taskset");
}

}  // namespace

absl::StatusOr<gpt::ComputeRate> ReadCompute() {
  SLUICE_RETURN_IF_ERROR(CheckProducts(base::AllowedCpuCount()));
  const auto threads = gpt::ComputeThreads::Create(base::AllowedCpuCount());
  if (!threads.ok()) return threads.status();
  return gpt::MeasureCompute(**threads);
}

Section DescribeCompute(const absl::StatusOr<gpt::ComputeRate>& rate) {
  Section section("compute");
  if (!rate.ok()) {
    section.Warn(std::string(rate.status().message()));
    return section;
  }
  section.Add("library", rate->library.name);
  section.Add("kernels", gpt::ToString(rate->library.kernels));
  section.Add("threads", rate->threads, fmt::format("{}", rate->threads));
  section.Add("gflops", rate->gflops, fmt::format("{:.0f}", rate->gflops));
  section.Add("peak_gflops", rate->peak_gflops, fmt::format("{:.0f}", rate->peak_gflops));
  section.Add("peak_share", rate->PeakShare(), fmt::format("{:.0f} %", 100 * rate->PeakShare()));
  if (const std::optional<FallbackEvent> fallback = gpt::FallbackOf(*rate)) {
    section.Warn(
        fmt::format("fallback: {}: {} ({})", fallback->what, fallback->chosen, fallback->reason));
  }
  return section;
}

}  // namespace sluice::tools
