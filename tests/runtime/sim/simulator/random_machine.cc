#include "tests/runtime/sim/simulator/random_machine.h"

#include <algorithm>
#include <random>
#include <vector>

#include "base/check.h"
#include "fmt/format.h"

namespace sluice::sim {
namespace {

constexpr std::uint64_t kPage = 64;

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}
  std::uint64_t Below(std::uint64_t limit) { return random_() % limit; }
  std::uint64_t Between(std::uint64_t least, std::uint64_t most) {
    return least + Below(most - least + 1);
  }
  bool Chance(std::uint32_t percent) { return Below(100) < percent; }
  template <typename T>
  const T& OneOf(const std::vector<T>& values) {
    return values[Below(values.size())];
  }

 private:
  std::mt19937_64 random_;
};

FileTensor MakeTensor(std::uint64_t id, Dice* dice) {
  FileTensor tensor{.id = id, .bytes = dice->Between(1, dice->Chance(20) ? 600 : 150)};
  tensor.persistent = dice->Chance(60);
  tensor.kind = static_cast<TensorKind>(dice->Below(kTensorKindCount));
  if (dice->Chance(20)) tensor.home = TensorHome::kFile;
  if (dice->Chance(40)) {
    tensor.segment = dice->Below(3);
    tensor.segment_offset = dice->Below(300);
  }
  return tensor;
}

FileAccess MakeAccess(const FileSchedule& schedule, Dice* dice) {
  const auto tensor = static_cast<std::uint32_t>(dice->Below(schedule.tensors.size()));
  const std::uint64_t bytes = schedule.tensors[tensor].bytes;
  if (dice->Chance(60)) return {tensor, {0, bytes}};
  const std::uint64_t offset = dice->Below(bytes);
  return {tensor, {offset, dice->Between(1, bytes - offset)}};
}

FileOp MakeOp(const FileSchedule& schedule, std::size_t lanes, TierKind lowest, Dice* dice) {
  const auto tier = [&] { return TierId{dice->Chance(85) ? TierKind::kHbm : lowest, 0}; };
  const std::size_t index = schedule.ops.size();
  FileOp op{.id = index, .lane = fmt::format("lane{}", dice->Below(lanes)), .tier = tier()};
  op.seconds = static_cast<double>(dice->Below(40)) * 0.1;
  for (std::uint64_t k = dice->Below(4); k > 0; --k) op.reads.push_back(MakeAccess(schedule, dice));
  for (std::uint64_t k = dice->Below(3); k > 0; --k) {
    op.writes.push_back(MakeAccess(schedule, dice));
  }
  if (dice->Chance(20) && !op.reads.empty()) {
    op.exceptions.push_back({op.reads.front().tensor, tier()});
  }
  if (lanes > 1 && dice->Chance(50)) {
    op.after.emplace();
    if (index > 0) op.after->push_back(static_cast<std::uint32_t>(dice->Below(index)));
  }
  return op;
}

/// Ops work in hbm and in `lowest`.
FileSchedule MakeSchedule(TierKind lowest, Dice* dice) {
  FileSchedule schedule{.name = "random"};
  const std::uint64_t tensors = dice->Between(1, 25);
  for (std::uint64_t i = 0; i < tensors; ++i) schedule.tensors.push_back(MakeTensor(i, dice));
  const std::size_t lanes = dice->Chance(50) ? 1 : dice->Between(2, 4);
  const std::uint64_t ops = dice->Between(1, 40);
  for (std::uint64_t i = 0; i < ops; ++i) {
    schedule.ops.push_back(MakeOp(schedule, lanes, lowest, dice));
  }
  return schedule;
}

MachinePath MakePath(Dice* dice) {
  const std::vector<double> rates = {40, 64, 130, 500, 10000};
  MachinePath path{.in_bytes_per_s = dice->OneOf(rates), .out_bytes_per_s = dice->OneOf(rates)};
  if (dice->Chance(30)) path.both_bytes_per_s = dice->OneOf(rates);
  if (dice->Chance(50)) path.latency_s = static_cast<double>(dice->Below(5)) * 0.3;
  path.serial = dice->Chance(30);
  return path;
}

/// The most pages that one op has in each tier.
std::vector<std::uint64_t> LargestOps(const PageLayout& layout, std::size_t tiers) {
  std::vector<std::uint64_t> largest(tiers);
  for (const PagedOp& op : layout.ops) {
    std::vector<std::uint64_t> pages(tiers);
    for (const core::PageRequest& request : op.requests) ++pages[request.tier];
    for (std::size_t i = 0; i < tiers; ++i) largest[i] = std::max(largest[i], pages[i]);
  }
  return largest;
}

/// The most pages that exist at once when ops run one after another.
std::uint64_t PagesAlive(const PageLayout& layout) {
  std::vector<std::uint32_t> ops_left;
  std::uint64_t alive = 0;
  for (const LayoutRun& run : layout.runs) {
    ops_left.push_back(run.ops);
    if (run.persistent) alive += run.pages;
  }
  std::uint64_t most = alive;
  for (const PagedOp& op : layout.ops) {
    for (const std::uint32_t i : op.runs) {
      if (ops_left[i] == layout.runs[i].ops) alive += layout.runs[i].pages;
    }
    most = std::max(most, alive);
    for (const std::uint32_t i : op.runs) {
      if (--ops_left[i] == 0) alive -= layout.runs[i].pages;
    }
  }
  return most;
}

bool WorksInLastTier(const PageLayout& layout, const SimOptions& options) {
  return WorksIn(layout, static_cast<core::TierIndex>(options.machine.tiers.size() - 1));
}

/// Sets budgets. Half of the runs get not a frame more than the largest op needs.
void SetBudgets(const PageLayout& layout, SimOptions* options, Dice* dice) {
  std::vector<MachineTier>& tiers = options->machine.tiers;
  const std::vector<std::uint64_t> largest = LargestOps(layout, tiers.size());
  const bool smallest = dice->Chance(50);
  for (std::size_t i = 0; i + 1 < tiers.size(); ++i) {
    std::uint64_t pages = std::max<std::uint64_t>(1, largest[i]);
    pages += (i > 0 ? 2 * options->transit_frames : 0) + (smallest ? 0 : dice->Below(12));
    tiers[i].bytes = pages * kPage + dice->Below(kPage);
  }
  const std::uint64_t alive = layout.lanes.size() == 1 ? PagesAlive(layout) : layout.pages;
  const std::uint64_t spare = WorksInLastTier(layout, *options) ? 2 * options->transit_frames
                                                                : options->copies_in_flight_max;
  const std::uint64_t least = std::max<std::uint64_t>(1, alive + spare);
  tiers.back().bytes = dice->Chance(30) ? MachineTier::kUnlimited : least * kPage;
}

}  // namespace

RandomRun MakeRandomRun(std::uint64_t seed) {
  Dice dice(seed * 6364136223846793005u + 1442695040888963407u);
  RandomRun run{.seed = seed};
  run.policy = dice.OneOf(core::PolicyNames());
  const std::size_t tiers = dice.Between(2, 3);
  const TierKind kinds[] = {TierKind::kHbm, TierKind::kDram, TierKind::kNvme};
  LayoutOptions layout{.page_bytes = kPage};
  for (std::size_t i = 0; i < tiers; ++i) {
    layout.tiers.push_back(kinds[i]);
    run.options.machine.tiers.push_back({kinds[i], 0});
    if (i > 0) run.options.machine.links.push_back({{MakePath(&dice)}});
  }
  // Dram is worked in where it is the last tier, too, in half of the runs.
  const bool works_in_dram = tiers > 2 || dice.Chance(50);
  run.schedule = MakeSchedule(works_in_dram ? TierKind::kDram : TierKind::kHbm, &dice);
  auto laid_out = LayOut(run.schedule, layout);
  SLUICE_CHECK(laid_out.ok(), "the test's schedules are legal");
  run.layout = std::move(laid_out).value();
  run.options.iterations = static_cast<int>(dice.Between(2, 8));
  run.options.prefetch_ops = static_cast<std::uint32_t>(dice.Chance(25) ? 0 : dice.Between(1, 12));
  run.options.copies_in_flight_max = static_cast<std::uint32_t>(dice.Between(1, 6));
  run.options.transit_frames = static_cast<std::uint32_t>(dice.Between(1, 2));
  run.options.clean_share = dice.Chance(50) ? 0 : 0.25;
  if (seed % 3 == 1) run.faults_per_mille = static_cast<std::uint32_t>(dice.Between(1, 100));
  if (dice.Chance(40)) run.changes_per_mille = static_cast<std::uint32_t>(dice.Between(1, 200));
  SetBudgets(run.layout, &run.options, &dice);
  run.core_tiers = static_cast<core::TierIndex>(tiers + WorksInLastTier(run.layout, run.options));
  run.options.ask_ahead = dice.Chance(30);
  return run;
}

void AddRandomPaths(RandomRun* run) {
  Dice dice(run->seed * 2862933555777941757u + 3037000493u);
  for (MachineLink& link : run->options.machine.links) {
    for (std::uint64_t more = dice.Below(4); more > 0; --more) {
      MachinePath path = MakePath(&dice);
      path.serial = link.paths.front().serial;
      link.paths.push_back(path);
    }
  }
}

std::string ToString(const RandomRun& run) {
  std::string tiers;
  for (const MachineTier& tier : run.options.machine.tiers) {
    const bool limited = tier.bytes != MachineTier::kUnlimited;
    tiers += limited ? fmt::format("{}/", tier.bytes / kPage) : "any";
  }
  return fmt::format(
      "seed {} policy {} frames {} pages {} ops {} lanes {} iterations {} copies {} transit {} "
      "prefetch {} clean {} faults {} changes {} ask ahead {}",
      run.seed,
      run.policy,
      tiers,
      run.layout.pages,
      run.layout.ops.size(),
      run.layout.lanes.size(),
      run.options.iterations,
      run.options.copies_in_flight_max,
      run.options.transit_frames,
      run.options.prefetch_ops,
      run.options.clean_share,
      run.faults_per_mille,
      run.changes_per_mille,
      run.options.ask_ahead);
}

/// One page less, another way to touch it, or another page that persists in its place.
void ChangeRequests(const PageLayout& layout,
                    std::uint64_t dice,
                    std::vector<core::PageRequest>* requests) {
  if (requests->empty()) return;
  const std::size_t chosen = dice / 16 % requests->size();
  core::PageRequest& request = (*requests)[chosen];
  if (dice % 4 == 0) {
    requests->erase(requests->begin() + static_cast<std::ptrdiff_t>(chosen));
  } else if (dice % 4 < 3) {
    request.mode = static_cast<core::PageMode>(dice / 4 % 3);
  } else {
    const LayoutRun& run = layout.runs[dice / 256 % layout.runs.size()];
    const bool there = std::any_of(requests->begin(), requests->end(), [&](const auto& other) {
      return other.page == run.first_page;
    });
    if (run.persistent && !there) request.page = run.first_page;
  }
}

}  // namespace sluice::sim
