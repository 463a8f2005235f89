#include "runtime/sim/schedule/made_again.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/analysis/recompute/recompute_problem.h"
#include "runtime/sim/facts/machine_bound.h"
#include "runtime/sim/schedule/lifetimes.h"
#include "runtime/sim/schedule/recorded_schedule.h"
#include "tests/runtime/sim/files/read_text.h"
#include "tests/runtime/sim/simulator/seeds.h"
#include "tests/runtime/sim/simulator/small_machine.h"
#include "tests/support/sanitizers.h"

/// Random schedules of the last tests; SLUICE_TEST_SEED=17 runs that one only.

namespace sluice::sim {
namespace {

using ::testing::ElementsAre;
using Tensors = std::vector<analysis::Recomputable>;

constexpr std::uint64_t kScheduleSeeds = testing::kSlowdown > 1 ? 200 : 2000;

FileSchedule ReadLines(const std::string& lines) {
  const auto schedule = ReadText("{\"schedule\": \"s\"}\n" + lines);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  return schedule.ok() ? *schedule : FileSchedule{};
}

Tensors Recomputables(const FileSchedule& schedule) {
  return analysis::FindRecomputable(ToSchedule(schedule, kSmallPage));
}

/// A weight, an activation that is read again at the end, and an update beside.
constexpr const char* kForwardAndBackward =
    R"({"tensor": 7, "bytes": 100, "persistent": true, "name": "weight"}
{"tensor": 8, "bytes": 100, "persistent": false, "name": "activation", "segment": 4}
{"op": 10, "name": "forward", "seconds": 1, "reads": [7], "writes": [8], "recompute_seconds": 0.5}
{"op": 20, "name": "between", "seconds": 2, "reads": [], "writes": []}
{"op": 30, "name": "backward", "seconds": 1, "reads": [7, 8], "writes": [], "after": [20]}
{"op": 40, "name": "update", "seconds": 1, "lane": "cpu", "tier": "dram", "reads": [7], "writes": [7], "after": [10]}
{"op": 50, "name": "end", "seconds": 1, "reads": [8], "writes": [], "after": [30]}
)";

TEST(MadeAgainTest, AnOpMoreWritesATensorOfItsOwn) {
  const FileSchedule before = ReadLines(kForwardAndBackward);
  const Tensors found = Recomputables(before);
  ASSERT_EQ(found.size(), 1u);
  const FileSchedule after = WithMadeAgain(before, found);
  ASSERT_EQ(after.tensors.size(), 3u);
  EXPECT_EQ(after.tensors[2].name, "activation again");
  EXPECT_FALSE(after.tensors[2].segment.has_value());
  ASSERT_EQ(after.ops.size(), 6u);
  const FileOp& made = after.ops[2];
  EXPECT_EQ(made.name, "forward again");
  EXPECT_EQ(made.seconds, 0.5);
  EXPECT_EQ(made.reads, (std::vector<FileAccess>{{0, {0, 100}}}));
  EXPECT_EQ(made.writes, (std::vector<FileAccess>{{2, {0, 100}}}));
  EXPECT_EQ(after.ops[0].writes[0].tensor, 1u);
  EXPECT_EQ(after.ops[3].reads[1].tensor, 2u);
  EXPECT_EQ(after.ops[5].reads[0].tensor, 2u);
  EXPECT_THAT(*after.ops[3].after, ElementsAre(1));
  EXPECT_THAT(*after.ops[4].after, ElementsAre(0, 2)) << "the update spoils what it is made of";
  EXPECT_THAT(*after.ops[5].after, ElementsAre(3));
  EXPECT_EQ(WithMadeAgain(before, {}), before);
}

TEST(MadeAgainTest, ASimulationComputesMoreAndMovesLess) {
  // The op between needs all of hbm.
  const std::string lines = R"({"tensor": 0, "bytes": 100, "persistent": true}
{"tensor": 1, "bytes": 100, "persistent": false}
{"tensor": 2, "bytes": 200, "persistent": false}
{"op": 1, "seconds": 1, "reads": [0], "writes": [1], "recompute_seconds": 0.5}
{"op": 2, "seconds": 1, "reads": [], "writes": [2]}
{"op": 3, "seconds": 1, "reads": [1, 0], "writes": []}
)";
  const FileSchedule before = ReadLines(lines);
  const SimOptions options = SmallOptions({2});
  const auto run = [&](const FileSchedule& schedule) {
    const auto layout =
        LayOut(schedule, {.page_bytes = kSmallPage, .tiers = {TierKind::kHbm, TierKind::kDram}});
    return Simulate(layout.value(), options).value();
  };
  const SimReport as_it_is = run(before);
  const SimReport made_again = run(WithMadeAgain(before, Recomputables(before)));
  EXPECT_DOUBLE_EQ(as_it_is.compute_s, 3);
  EXPECT_DOUBLE_EQ(made_again.compute_s, 3.5);
  EXPECT_EQ(as_it_is.links[0].out_bytes, 100u);
  EXPECT_EQ(made_again.links[0].out_bytes, 0u);
  EXPECT_EQ(made_again.links[0].in_bytes, as_it_is.links[0].in_bytes - 100);
  EXPECT_LT(made_again.time_s, as_it_is.time_s);
}

class ScheduleDice {
 public:
  explicit ScheduleDice(std::uint64_t seed) : random_(seed) {}
  std::uint64_t Below(std::uint64_t limit) { return random_() % limit; }
  bool Chance(std::uint64_t percent) { return Below(100) < percent; }

 private:
  std::mt19937_64 random_;
};

FileAccess RandomAccess(const FileSchedule& schedule, ScheduleDice* dice) {
  const auto tensor = static_cast<std::uint32_t>(dice->Below(schedule.tensors.size()));
  const std::uint64_t bytes = schedule.tensors[tensor].bytes;
  if (dice->Chance(85)) return {tensor, {0, bytes}};
  const std::uint64_t offset = dice->Below(bytes);
  return {tensor, {offset, 1 + dice->Below(bytes - offset)}};
}

/// A random schedule. Ops make most tensors as a whole, and others read them. Some tensors overlap.
FileSchedule RandomRecomputeSchedule(ScheduleDice* dice) {
  FileSchedule schedule{.name = "random"};
  for (std::uint64_t i = 3 + dice->Below(5); i > 0; --i) {
    FileTensor tensor{.id = i, .bytes = 1 + dice->Below(12), .persistent = dice->Chance(25)};
    if (dice->Chance(30)) {
      tensor.segment = 1;
      tensor.segment_offset = dice->Below(60);
    }
    schedule.tensors.push_back(tensor);
  }
  const std::uint64_t lanes = dice->Chance(70) ? 1 : 2;
  for (std::uint64_t i = 4 + dice->Below(14); i > 0; --i) {
    FileOp op{.id = schedule.ops.size(), .lane = dice->Below(lanes) == 0 ? "gpu" : "cpu"};
    op.seconds = static_cast<double>(dice->Below(4));
    for (std::uint64_t k = dice->Below(4); k > 0; --k) {
      op.reads.push_back(RandomAccess(schedule, dice));
    }
    for (std::uint64_t k = dice->Below(3); k > 0; --k) {
      op.writes.push_back(RandomAccess(schedule, dice));
      op.recompute_seconds.push_back(0.25 * static_cast<double>(dice->Below(8)));
    }
    schedule.ops.push_back(std::move(op));
  }
  return schedule;
}

/// Interpreter of a schedule, one op after the other, by byte. The bytes that an op writes depend
/// on the op and on all that it read. Tensors whose life has ended are spoiled.
class Interpreter {
 public:
  explicit Interpreter(const FileSchedule& schedule) : schedule_(schedule) {}

  /// Bytes that each op read, without the ops that were added.
  std::vector<std::vector<std::uint64_t>> Run(std::size_t tensors_at_first) {
    std::vector<std::vector<std::uint64_t>> seen;
    std::vector<std::size_t> last(schedule_.tensors.size());
    for (std::size_t i = 0; i < schedule_.ops.size(); ++i) {
      for (const auto* accesses : {&schedule_.ops[i].reads, &schedule_.ops[i].writes}) {
        for (const FileAccess& access : *accesses) last[access.tensor] = i;
      }
    }
    for (std::size_t i = 0; i < schedule_.ops.size(); ++i) {
      const FileOp& op = schedule_.ops[i];
      std::vector<std::uint64_t> read = Carry(op);
      const bool added = op.writes.size() == 1 && op.writes[0].tensor >= tensors_at_first &&
                         op.recompute_seconds.empty();
      if (!added) seen.push_back(std::move(read));
      for (std::uint32_t t = 0; t < schedule_.tensors.size(); ++t) {
        if (last[t] == i && !schedule_.tensors[t].segment.has_value()) Spoil(t, i);
      }
    }
    return seen;
  }

 private:
  using ByteAddress = std::pair<std::uint64_t, std::uint64_t>;

  ByteAddress PlaceOf(std::uint32_t tensor, std::uint64_t byte) const {
    const FileTensor& facts = schedule_.tensors[tensor];
    if (facts.segment.has_value()) return {0, facts.segment_offset + byte};
    return {1 + tensor, byte};
  }

  std::vector<std::uint64_t> Carry(const FileOp& op) {
    std::vector<std::uint64_t> read;
    std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> inputs;  // each byte once
    for (const FileAccess& access : op.reads) {
      for (std::uint64_t b = access.range.offset; b < access.range.offset + access.range.bytes;
           ++b) {
        read.push_back(memory_[PlaceOf(access.tensor, b)]);
        inputs[{schedule_.tensors[access.tensor].id, b}] = read.back();
      }
    }
    std::uint64_t sum = op.id + 1;
    for (const auto& [place, value] : inputs) sum = sum * 1000003 + value;
    for (const FileAccess& access : op.writes) {
      for (std::uint64_t b = access.range.offset; b < access.range.offset + access.range.bytes;
           ++b) {
        memory_[PlaceOf(access.tensor, b)] =
            (sum * 31 + schedule_.tensors[access.tensor].id) * 31 + b;
      }
    }
    return read;
  }

  void Spoil(std::uint32_t tensor, std::size_t op) {
    if (schedule_.tensors[tensor].persistent) return;
    for (std::uint64_t b = 0; b < schedule_.tensors[tensor].bytes; ++b) {
      memory_[PlaceOf(tensor, b)] = 0xdead0000 + op;
    }
  }

  const FileSchedule& schedule_;
  std::map<ByteAddress, std::uint64_t> memory_;
};

/// Some of the tensors.
Tensors Some(const Tensors& tensors, ScheduleDice* dice) {
  Tensors some;
  std::copy_if(tensors.begin(), tensors.end(), std::back_inserter(some), [&](const auto&) {
    return dice->Chance(60);
  });
  return some;
}

/// Checks that a tensor discarded after its last use is not used by an added op either.
void ExpectAway(const FileSchedule& after, const Tensors& tensors) {
  for (const analysis::Recomputable& one : tensors) {
    std::size_t last = 0;
    for (std::size_t i = 0; i < after.ops.size(); ++i) {
      for (const auto* accesses : {&after.ops[i].reads, &after.ops[i].writes}) {
        for (const FileAccess& access : *accesses) {
          if (access.tensor == one.tensor) last = i;
        }
      }
    }
    const auto added = std::count_if(tensors.begin(), tensors.end(), [&](const auto& other) {
      return other.next_use <= one.last_use;
    });
    EXPECT_EQ(last, one.last_use + static_cast<std::size_t>(added));
  }
}

TEST(MadeAgainTest, EveryOpReadsWhatItReadBefore) {
  const Seeds seeds(kScheduleSeeds);
  std::uint64_t made = 0, chains = 0;
  for (std::uint64_t seed = seeds.first; seed <= seeds.last; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ScheduleDice dice(seed);
    const FileSchedule before = RandomRecomputeSchedule(&dice);
    const Tensors all = Recomputables(before);
    for (const Tensors& tensors : {all, Some(all, &dice)}) {
      const FileSchedule after = WithMadeAgain(before, tensors);
      ASSERT_EQ(after.ops.size(), before.ops.size() + tensors.size());
      made += tensors.size();
      for (const FileOp& op : after.ops) {
        chains += std::any_of(op.reads.begin(), op.reads.end(), [&](const FileAccess& read) {
          return op.recompute_seconds.empty() && !op.writes.empty() &&
                 read.tensor >= before.tensors.size();
        });
      }
      ExpectAway(after, tensors);
      ASSERT_EQ(Interpreter(after).Run(before.tensors.size()),
                Interpreter(before).Run(before.tensors.size()));
    }
  }
  if (seeds.only != 0) return;
  EXPECT_GT(made, kScheduleSeeds / 4);
  EXPECT_GT(chains, 0u) << "some are made of what was made again";
}

TEST(MadeAgainTest, PlansAreNoSlowerThanNoneAndAllByTheirReckoning) {
  const Seeds seeds(kScheduleSeeds);
  std::uint64_t decided = 0;
  for (std::uint64_t seed = seeds.first; seed <= seeds.last; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ScheduleDice dice(seed);
    const Schedule schedule = ToSchedule(RandomRecomputeSchedule(&dice), 4);
    const Tensors tensors = analysis::FindRecomputable(schedule);
    Machine machine{.tiers = {{TierKind::kHbm, 4 * (4 + dice.Below(8))}, {TierKind::kDram, 0}}};
    const MachinePath path{.in_bytes_per_s = 1 + static_cast<double>(dice.Below(8)),
                           .out_bytes_per_s = 1 + static_cast<double>(dice.Below(8))};
    machine.links = {{.paths = {path}}};
    const analysis::RecomputeProblem problem =
        analysis::MakeRecomputeProblem(schedule, tensors, TimeBoundOptionsFor(machine, schedule));
    const analysis::RecomputePlan plan = analysis::PlanRecompute(problem);
    for (const analysis::Relief relief :
         {analysis::Relief::kOffload, analysis::Relief::kRecompute}) {
      EXPECT_LE(plan.seconds, analysis::PlanUniform(problem, relief).seconds);
    }
    decided +=
        std::count(plan.reliefs.begin(), plan.reliefs.end(), analysis::Relief::kRecompute) > 0;
  }
  if (seeds.only == 0) {
    EXPECT_GT(decided, kScheduleSeeds / 50);
  }
}

}  // namespace
}  // namespace sluice::sim
