#include "tools/lab/run/run_variants.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/status.h"
#include "runtime/analysis/recompute/recompute_problem.h"
#include "runtime/sim/facts/machine_bound.h"
#include "runtime/sim/schedule/made_again.h"
#include "runtime/sim/schedule/recorded_schedule.h"
#include "tools/lab/run/run_bound.h"

namespace sluice::tools {
namespace {

using Tensors = std::vector<analysis::Recomputable>;
using Reliefs = std::vector<analysis::Relief>;

absl::StatusOr<RunVariant> MakeVariant(const RunFlags& flags, sim::FileSchedule schedule) {
  RunVariant variant;
  sim::LayoutOptions options{.page_bytes = flags.page_bytes};
  for (const sim::MachineTier& tier : flags.machine.tiers) options.tiers.push_back(tier.kind);
  absl::StatusOr<sim::PageLayout> layout = sim::LayOut(schedule, options);
  if (!layout.ok()) return base::Annotate(layout.status(), flags.path);
  variant.layout = *std::move(layout);
  variant.setting = {
      .schedule = std::move(schedule), .machine = flags.machine, .page_bytes = flags.page_bytes};
  variant.setting.bound = BoundRun(sim::ToSchedule(variant.setting.schedule, flags.page_bytes),
                                   flags.machine,
                                   sim::ComputeSeconds(variant.layout));
  return variant;
}

Tensors MadeAgain(const Tensors& tensors, const Reliefs& reliefs) {
  Tensors chosen;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (reliefs[i] == analysis::Relief::kRecompute) chosen.push_back(tensors[i]);
  }
  return chosen;
}

RecomputeUse UseOf(std::string taken, const Tensors& tensors, const Reliefs& reliefs) {
  RecomputeUse use{.taken = std::move(taken)};
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    RecomputeUse::Part& part = reliefs[i] == analysis::Relief::kKeep      ? use.kept
                               : reliefs[i] == analysis::Relief::kOffload ? use.offloaded
                                                                          : use.recomputed;
    ++part.tensors;
    part.bytes += static_cast<std::uint64_t>(tensors[i].bytes);
    if (reliefs[i] == analysis::Relief::kRecompute) use.recompute_s += tensors[i].recompute_seconds;
  }
  return use;
}

/// The variants of one file, one after the other.
class Maker {
 public:
  Maker(const RunFlags& flags, const sim::FileSchedule& file)
      : flags_(flags),
        file_(file),
        schedule_(sim::ToSchedule(file, flags.page_bytes)),
        tensors_(analysis::FindRecomputable(schedule_)) {}

  absl::StatusOr<RunVariant> All() const {
    return With("all", Reliefs(tensors_.size(), analysis::Relief::kRecompute));
  }

  /// Adds the planned variants that can run, with a sentence on each choice.
  void AddPlanned(std::vector<RunVariant>* variants) const {
    const analysis::RecomputeProblem problem = analysis::MakeRecomputeProblem(
        schedule_, tensors_, sim::TimeBoundOptionsFor(flags_.machine, schedule_));
    const Reliefs none = analysis::PlanUniform(problem, analysis::Relief::kOffload).reliefs;
    variants->front().setting.recompute = UseOf("none", tensors_, none);
    if (tensors_.empty()) return;
    Add(All(), variants);
    const Reliefs planned = analysis::PlanRecompute(problem).reliefs;
    const std::size_t count = MadeAgain(tensors_, planned).size();
    if (count > 0 && count < tensors_.size()) Add(With("planned", planned), variants);
  }

 private:
  static void Add(absl::StatusOr<RunVariant> variant, std::vector<RunVariant>* variants) {
    if (variant.ok()) variants->push_back(*std::move(variant));
  }

  absl::StatusOr<RunVariant> With(std::string name, const Reliefs& reliefs) const {
    SLUICE_ASSIGN_OR_RETURN(
        RunVariant variant,
        MakeVariant(flags_, sim::WithMadeAgain(file_, MadeAgain(tensors_, reliefs))));
    variant.setting.recompute = UseOf(std::move(name), tensors_, reliefs);
    return variant;
  }

  const RunFlags& flags_;
  const sim::FileSchedule& file_;
  const Schedule schedule_;
  const Tensors tensors_;
};

}  // namespace

absl::StatusOr<RunVariants> MakeRunVariants(const RunFlags& flags, sim::FileSchedule schedule) {
  RunVariants variants;
  SLUICE_ASSIGN_OR_RETURN(RunVariant file, MakeVariant(flags, schedule));
  variants.all.push_back(std::move(file));
  if (flags.recompute == LabRecompute::kNone) return variants;
  const Maker maker(flags, schedule);
  if (flags.recompute == LabRecompute::kPlanned) {
    maker.AddPlanned(&variants.all);
    return variants;
  }
  SLUICE_ASSIGN_OR_RETURN(RunVariant all, maker.All());
  variants.all.push_back(std::move(all));
  variants.first = 1;
  return variants;
}

}  // namespace sluice::tools
