#include "tests/runtime/core/driver/scenario.h"

#include <algorithm>
#include <random>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"

namespace sluice::core {
namespace {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}
  std::uint64_t Below(std::uint64_t limit) { return random_() % limit; }
  std::uint32_t Between(std::uint32_t least, std::uint32_t most) {
    return static_cast<std::uint32_t>(least + Below(most - least + 1));
  }
  bool Chance(std::uint32_t percent) { return Below(100) < percent; }

 private:
  std::mt19937_64 random_;
};

/// Frames of tiers that hold one op's pages and those in flight. Half of the seeds have not a frame
/// more.
std::vector<FrameIndex> RandomFrames(const Scenario& scenario, Dice* dice) {
  const std::uint32_t tiers = dice->Between(2, 4);
  const bool smallest = dice->Chance(50);
  std::vector<FrameIndex> frames;
  for (std::uint32_t tier = 0; tier + 1 < tiers; ++tier) {
    FrameIndex count = scenario.op_pages_max + (smallest ? 0 : dice->Between(0, 12));
    if (tier > 0) count += 2 * scenario.driver.transit_frames + 1;
    frames.push_back(count);
  }
  const std::uint32_t spare = scenario.driver.copies_in_flight_max + dice->Between(1, 8);
  frames.push_back(scenario.pages + 3 + spare);
  return frames;
}

}  // namespace

Scenario RandomScenario(std::uint64_t seed, const ScenarioSizes& sizes) {
  Dice dice(seed * 7919 + 1);
  Scenario scenario;
  scenario.driver.seed = seed;
  scenario.driver.policy = dice.Chance(50) ? "lru" : "min";
  scenario.driver.copies_in_flight_max = dice.Between(1, sizes.copies_in_flight_most);
  scenario.driver.transit_frames = dice.Between(1, 2);
  scenario.driver.prefetch_ops = dice.Chance(30) ? 0 : dice.Between(1, 12);
  scenario.driver.clean_share = dice.Chance(50) ? 0 : 0.25;
  scenario.driver.latency_max = dice.Chance(50) ? 100 : 8;
  scenario.driver.events_per_check = 4;
  scenario.op_pages_max = dice.Between(sizes.op_pages_least, sizes.op_pages_most);
  scenario.threads = dice.Between(1, 4);
  scenario.pages = dice.Between(sizes.pages_least, sizes.pages_most);
  scenario.iterations = dice.Chance(50);
  scenario.budgets = dice.Chance(30);
  scenario.segments = dice.Chance(40);
  scenario.faults_per_mille = dice.Chance(40) ? dice.Between(1, 100) : 0;
  scenario.long_faults = dice.Chance(30);
  scenario.ask_ahead = dice.Chance(50);
  scenario.driver.frames = RandomFrames(scenario, &dice);
  scenario.driver.together = dice.Chance(50) ? dice.Between(1, 20) : 0;
  scenario.driver.keeps_mappings = dice.Chance(50);
  scenario.driver.under_way = dice.Chance(40);
  return scenario;
}

/// A scenario with frames for all pages, of which the last tier has a few at most.
Scenario MixedScenario(std::uint64_t seed) {
  Dice dice(seed * 104729 + 3);
  Scenario scenario = RandomScenario(seed);
  scenario.mixed = true;
  std::vector<FrameIndex>& frames = scenario.driver.frames;
  scenario.driver.capacity_from = dice.Chance(30) ? 0 : 1;
  if (frames.size() == 2 && scenario.driver.capacity_from == 1) frames.insert(frames.begin(), 6);
  const auto below = static_cast<std::uint32_t>(dice.Below(scenario.pages));
  const bool empty = frames.size() > 2 && dice.Chance(50);
  frames.back() = empty ? 0 : scenario.driver.copies_in_flight_max + below;
  FrameIndex& above = frames[frames.size() - 2];
  above += scenario.pages - (empty ? 0 : below);
  above += above / 4 + 2 * scenario.driver.transit_frames + 1;
  scenario.driver.frames.front() = std::max(frames.front(), scenario.op_pages_max);
  return scenario;
}

std::string ToString(const Scenario& scenario) {
  return fmt::format(
      "seed {} policy {} frames {} threads {} op pages {} pages {} copies {} transit {} prefetch "
      "{} "
      "clean {} together {} iterations {} ahead {} plans {} budgets {} segments {} faults "
      "{}{}{}{}{}",
      scenario.driver.seed,
      scenario.driver.policy,
      fmt::join(scenario.driver.frames, "/"),
      scenario.threads,
      scenario.op_pages_max,
      scenario.pages,
      scenario.driver.copies_in_flight_max,
      scenario.driver.transit_frames,
      scenario.driver.prefetch_ops,
      scenario.driver.clean_share,
      scenario.driver.together,
      scenario.iterations,
      scenario.ask_ahead,
      scenario.plans,
      scenario.budgets,
      scenario.segments,
      scenario.faults_per_mille,
      scenario.long_faults ? " long" : "",
      scenario.driver.keeps_mappings ? " mappings kept" : "",
      scenario.driver.under_way ? " under way" : "",
      scenario.mixed ? fmt::format(" mixed from {}", scenario.driver.capacity_from) : "");
}

}  // namespace sluice::core
