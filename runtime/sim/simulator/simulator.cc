#include "runtime/sim/simulator/simulator.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "runtime/sim/simulator/plan_times.h"
#include "runtime/sim/simulator/sim_errors.h"
#include "runtime/sim/simulator/simulation.h"

namespace sluice::sim {

Simulation::Simulation(const PageLayout& layout, const SimOptions& options)
    : layout_(layout),
      options_(options),
      clock_(options.machine, options.observer),
      meter_(layout, options),
      works_in_last_(
          WorksIn(layout, static_cast<core::TierIndex>(options.machine.tiers.size() - 1))),
      followers_(layout.ops.size()),
      waits_(layout.ops.size()),
      before_in_lane_(layout.ops.size()) {
  LinkOps();
  for (const LayoutRun& run : layout.runs) {
    if (run.file_home) clock_.PlaceInFile(run.first_page, run.pages);
  }
}

/// Each op waits for the one before it in its lane, and for those that it names.
void Simulation::LinkOps() {
  const auto link = [this](std::uint32_t before, std::uint32_t op) {
    followers_[before].push_back(op);
    ++waits_[op];
  };
  std::vector<std::optional<std::uint32_t>> last_of_lane(layout_.lanes.size());
  for (std::uint32_t i = 0; i < layout_.ops.size(); ++i) {
    const PagedOp& op = layout_.ops[i];
    before_in_lane_[i] = std::exchange(last_of_lane[op.lane], i);
    if (before_in_lane_[i].has_value()) link(*before_in_lane_[i], i);
    for (const std::uint32_t before : op.after) {
      if (before != before_in_lane_[i]) link(before, i);
    }
  }
}

/// Number of pages in the tier. A last tier without a limit has as many as the schedule needs, with
/// the spare slots that the core asks for.
std::uint64_t Simulation::PagesIn(std::size_t tier) const {
  const MachineTier& machine_tier = options_.machine.tiers[tier];
  if (machine_tier.bytes != MachineTier::kUnlimited) {
    return machine_tier.bytes / layout_.page_bytes;
  }
  const std::uint64_t spare =
      works_in_last_ ? options_.transit_frames : options_.copies_in_flight_max;
  return std::uint64_t{layout_.pages} + 2 * spare;
}

core::CoreOptions Simulation::CoreOptionsOf() const {
  core::CoreOptions core{.tiers = {},
                         .policy = options_.policy,
                         .copies_in_flight_max = options_.copies_in_flight_max,
                         .transit_frames = options_.transit_frames,
                         .prefetch_ops = options_.prefetch_ops,
                         .clean_share = options_.clean_share,
                         .objective = options_.objective,
                         // The schedule is in memory anyway.
                         .schedules = {.accesses_max = UINT64_MAX}};
  for (std::size_t i = 0; i < options_.machine.tiers.size(); ++i) {
    // More frames than pages and copies of them are never used.
    const std::uint64_t most = 2 * std::uint64_t{layout_.pages} + 1024;
    core.tiers.push_back({.frames = static_cast<core::FrameIndex>(std::min(PagesIn(i), most)),
                          .keeps_mappings = options_.machine.tiers[i].kind == TierKind::kHbm});
  }
  // The core leases nothing in its last tier. One without frames below the machine's makes the
  // machine's a tier like the others.
  if (works_in_last_) core.tiers.push_back({.frames = 0});
  return core;
}

/// Number of pages that may live at once: the last tier of the machine holds them all.
std::uint64_t Simulation::RoomFor(const core::CoreOptions& core) const {
  const core::FrameIndex frames = core.tiers[options_.machine.tiers.size() - 1].frames;
  const std::uint32_t spare = works_in_last_ ? 2 * core.transit_frames : core.copies_in_flight_max;
  return frames - std::min(frames, spare);
}

absl::StatusOr<SimReport> Simulation::Run() {
  const core::CoreOptions core = CoreOptionsOf();
  SLUICE_RETURN_IF_ERROR(CheckMachine(options_.machine, core, layout_.page_bytes));
  SLUICE_ASSIGN_OR_RETURN(core_, core::Core::Create(core));
  room_ = RoomFor(core);
  if (options_.observer != nullptr) options_.observer->OnStart(*core_);
  SLUICE_RETURN_IF_ERROR(CreatePersistent());
  for (int i = 0; i < options_.iterations; ++i) {
    meter_.BeginIteration(clock_.now());
    SLUICE_RETURN_IF_ERROR(RunIteration());
    meter_.EndIteration(clock_.now(), clock_.links(), *core_);
    if (i == 0 && options_.policy->planned()) AdoptPlan();
  }
  return meter_.Report(*core_);
}

/// Makes a plan from the recording of the first iteration.
void Simulation::AdoptPlan() {
  const auto begin = std::chrono::steady_clock::now();
  core::PlanInput input = core_->RecordedPlan(0);
  AddTimes(layout_, core_->RecordedSteps(0), &input);
  AddLinks(options_.machine, layout_.page_bytes, &input);
  auto plan = std::make_shared<const core::Plan>(core::MakePlan(input));
  meter_.SetPlanSeconds(std::chrono::steady_clock::now() - begin);
  Feed(core::AdoptPlan{0, std::move(plan)});
}

absl::StatusOr<SimReport> Simulate(const PageLayout& layout, const SimOptions& options) {
  SLUICE_CHECK(options.iterations >= 2, "the first iteration is only recorded");
  return Simulation(layout, options).Run();
}

}  // namespace sluice::sim
