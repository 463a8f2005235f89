#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/sim/schedule/page_layout.h"
#include "runtime/sim/simulator/simulator.h"
#include "tests/runtime/sim/files/read_text.h"

namespace sluice::sim {

/// Machines and schedules small enough to work out by hand: pages of 100 bytes, which take a
/// second on a link.
inline constexpr std::uint64_t kSmallPage = 100;

/// Fastest tier first, sizes in pages; behind them one as large as needed.
inline Machine SmallMachine(const std::vector<std::uint64_t>& pages) {
  constexpr TierKind kKinds[] = {TierKind::kHbm, TierKind::kDram, TierKind::kNvme};
  Machine machine;
  for (std::size_t i = 0; i < pages.size(); ++i) {
    machine.tiers.push_back({kKinds[i], pages[i] * kSmallPage});
    machine.links.push_back({{{.in_bytes_per_s = 100, .out_bytes_per_s = 100}}});
  }
  machine.tiers.push_back({kKinds[pages.size()], MachineTier::kUnlimited});
  return machine;
}

/// Demand paging, nothing written ahead.
inline SimOptions SmallOptions(const std::vector<std::uint64_t>& pages) {
  return {.machine = SmallMachine(pages),
          .policy = core::CreatePolicy("lru").value(),
          .iterations = 4,
          .prefetch_ops = 0,
          .copies_in_flight_max = 4,
          .transit_frames = 1,
          .clean_share = 0};
}

inline absl::StatusOr<SimReport> SimulateText(const std::string& lines, const SimOptions& options) {
  LayoutOptions layout_options{.page_bytes = kSmallPage};
  for (const MachineTier& tier : options.machine.tiers) layout_options.tiers.push_back(tier.kind);
  const auto schedule = ReadText("{\"schedule\": \"s\"}\n" + lines);
  if (!schedule.ok()) return schedule.status();
  const auto layout = LayOut(*schedule, layout_options);
  if (!layout.ok()) return layout.status();
  return Simulate(*layout, options);
}

inline SimReport Simulated(const std::string& lines, const SimOptions& options) {
  const auto report = SimulateText(lines, options);
  EXPECT_TRUE(report.ok()) << report.status();
  return report.ok() ? *report : SimReport{};
}

}  // namespace sluice::sim
