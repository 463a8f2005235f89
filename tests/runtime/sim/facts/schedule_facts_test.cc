#include "runtime/sim/facts/schedule_facts.h"

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/runtime/sim/simulator/random_schedule.h"
#include "tests/support/status_matchers.h"

namespace sluice::sim {
namespace {

using ::sluice::testing::IsOk;

/// A byte (or the page that it lies in): its space, and its place there.
using PageAddress = std::pair<std::uint64_t, std::uint64_t>;

/// The facts of a schedule, found by looking at every page of every access.
class NaiveFacts {
 public:
  NaiveFacts(const FileSchedule& schedule, std::uint64_t page) : schedule_(schedule), page_(page) {
    FindLives();
    FindPeaks();
    FindReuses();
  }

  std::uint64_t persistent = 0;
  Peak live;
  Peak working_set;
  using Reuses = std::map<std::uint64_t, std::uint64_t>;  ///< distance -> bytes
  Reuses reuses;
  struct Op {
    std::uint64_t live = 0;
    std::uint64_t working_set = 0;
    Reuses reuses;
  };
  std::vector<Op> ops;

 private:
  struct Life {
    bool persistent = false;
    std::size_t first = SIZE_MAX;
    std::size_t last = 0;
  };

  std::set<PageAddress> Pages(const FileAccess& access) const {
    const FileTensor& tensor = schedule_.tensors[access.tensor];
    // Segments have small numbers; what is in none gets a space of its own.
    const std::uint64_t space = tensor.segment.value_or(1000 + access.tensor);
    const std::uint64_t begin = tensor.segment_offset + access.range.offset;
    std::set<PageAddress> pages;
    for (std::uint64_t byte = begin; byte < begin + access.range.bytes; ++byte) {
      pages.insert({space, byte / page_});
    }
    return pages;
  }

  std::set<PageAddress> Touched(const FileOp& op) const {
    std::set<PageAddress> pages;
    for (const FileAccess& access : op.reads) pages.merge(Pages(access));
    for (const FileAccess& access : op.writes) pages.merge(Pages(access));
    return pages;
  }

  void FindLives() {
    for (std::uint32_t i = 0; i < schedule_.tensors.size(); ++i) {
      for (const PageAddress& page : Pages({i, {0, schedule_.tensors[i].bytes}})) {
        Life& life = lives_[page];
        life.persistent |= schedule_.tensors[i].persistent;
        for (std::size_t op = 0; op < schedule_.ops.size(); ++op) {
          if (!Uses(schedule_.ops[op], i)) continue;
          life.first = std::min(life.first, op);
          life.last = std::max(life.last, op);
        }
      }
    }
  }

  static bool Uses(const FileOp& op, std::uint32_t tensor) {
    const auto is_it = [tensor](const FileAccess& access) { return access.tensor == tensor; };
    return std::any_of(op.reads.begin(), op.reads.end(), is_it) ||
           std::any_of(op.writes.begin(), op.writes.end(), is_it);
  }

  void FindPeaks() {
    for (const auto& [page, life] : lives_) persistent += life.persistent ? page_ : 0;
    live = {persistent, 0};
    ops.resize(schedule_.ops.size());
    for (std::size_t op = 0; op < schedule_.ops.size(); ++op) {
      std::uint64_t bytes = 0;
      for (const auto& [page, life] : lives_) {
        bytes += life.persistent || (life.first <= op && op <= life.last) ? page_ : 0;
      }
      if (bytes > live.bytes) live = {bytes, op};
      const std::uint64_t touched = Touched(schedule_.ops[op]).size() * page_;
      if (touched > working_set.bytes) working_set = {touched, op};
      ops[op].live = bytes;
      ops[op].working_set = touched;
    }
  }

  /// Goes back from each use in the second iteration to the use before.
  void FindReuses() {
    const std::size_t count = schedule_.ops.size();
    for (std::size_t op = count; op < 2 * count; ++op) {
      for (const PageAddress& page : Touched(schedule_.ops[op % count])) {
        // Content that does not persist differs from iteration to iteration.
        std::set<std::pair<PageAddress, std::size_t>> since;
        std::size_t before = op;
        for (;; --before) {
          if (before != op && Touched(schedule_.ops[before % count]).contains(page)) break;
          for (const PageAddress& other : Touched(schedule_.ops[before % count])) {
            since.insert({other, lives_[other].persistent ? 0 : before / count});
          }
          if (before == 0) break;
        }
        if (!lives_[page].persistent && before < count) continue;
        reuses[since.size() * page_] += page_;
        ops[op % count].reuses[since.size() * page_] += page_;
      }
    }
  }

  const FileSchedule& schedule_;
  const std::uint64_t page_;
  std::map<PageAddress, Life> lives_;
};

/// The smallest distance that covers the share; 0 for none.
std::uint64_t Covering(const NaiveFacts::Reuses& reuses, double share) {
  std::uint64_t all = 0, covered = 0;
  for (const auto& [distance, bytes] : reuses) all += bytes;
  for (const auto& [distance, bytes] : reuses) {
    covered += bytes;
    if (static_cast<double>(covered) >= share * static_cast<double>(all)) return distance;
  }
  return 0;
}

/// Ops are told apart by `name`, in the schedule and in the groups.
void ExpectGroups(const FileSchedule& schedule,
                  const NaiveFacts& naive,
                  const std::string FileOp::*name,
                  const std::vector<OpGroup>& groups) {
  for (const OpGroup& group : groups) {
    NaiveFacts::Op most;
    for (std::size_t op = 0; op < naive.ops.size(); ++op) {
      if (schedule.ops[op].*name != group.name) continue;
      most.live = std::max(most.live, naive.ops[op].live);
      most.working_set = std::max(most.working_set, naive.ops[op].working_set);
      for (const auto& [distance, bytes] : naive.ops[op].reuses) most.reuses[distance] += bytes;
    }
    EXPECT_EQ(group.peak_live_bytes, most.live) << group.name;
    EXPECT_EQ(group.working_set_bytes, most.working_set) << group.name;
    std::uint64_t reused = 0;
    for (const auto& [distance, bytes] : most.reuses) reused += bytes;
    EXPECT_EQ(group.reused_bytes, reused) << group.name;
    for (std::size_t i = 0; i < kGroupReuseShares.size(); ++i) {
      EXPECT_EQ(group.reuse_distances[i], Covering(most.reuses, kGroupReuseShares[i]))
          << group.name;
    }
  }
}

TEST(ScheduleFactsTest, EqualNaiveOnesOnRandomSchedules) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  for (int i = 0; i < 300; ++i) {
    FileSchedule schedule = RandomSchedule(random);
    for (FileOp& op : schedule.ops) op.name.assign(1, static_cast<char>('a' + random() % 3));
    const std::uint64_t page = std::array{1, 4, 16}[random() % 3];
    const absl::StatusOr<ScheduleFacts> facts = FindFacts(schedule, {.page_bytes = page});
    ASSERT_THAT(facts, IsOk());
    const NaiveFacts naive(schedule, page);
    EXPECT_EQ(facts->persistent_bytes, naive.persistent);
    EXPECT_EQ(facts->live.bytes, naive.live.bytes);
    EXPECT_EQ(facts->live.op, naive.live.op);
    EXPECT_EQ(facts->working_set.bytes, naive.working_set.bytes);
    EXPECT_EQ(facts->working_set.op, naive.working_set.op);
    std::map<std::uint64_t, std::uint64_t> reuses;
    for (const Reuse& reuse : facts->reuses) reuses[reuse.distance_bytes] += reuse.bytes;
    EXPECT_EQ(reuses, naive.reuses);
    ExpectGroups(schedule, naive, &FileOp::name, facts->groups.by_name.groups);
    ExpectGroups(schedule, naive, &FileOp::lane, facts->groups.by_lane.groups);
    ASSERT_FALSE(HasFailure()) << "schedule " << i << ", page " << page;
  }
}

FileOp MakeOp(std::uint64_t id, std::vector<FileAccess> reads, std::vector<FileAccess> writes) {
  return {.id = id, .reads = std::move(reads), .writes = std::move(writes)};
}

/// Weights of 100 bytes, an activation of 10, a scratch of 5.
FileSchedule ThreeOps() {
  FileSchedule schedule;
  schedule.tensors = {{.id = 0, .bytes = 100, .persistent = true, .kind = TensorKind::kParameter},
                      {.id = 1, .bytes = 10, .kind = TensorKind::kActivation},
                      {.id = 2, .bytes = 5, .kind = TensorKind::kActivation},
                      {.id = 3, .bytes = 1, .persistent = true}};
  const FileAccess weights{0, {0, 100}};
  const FileAccess activation{1, {0, 10}};
  const FileAccess scratch{2, {0, 5}};
  schedule.ops = {MakeOp(0, {weights}, {activation}),
                  MakeOp(1, {scratch}, {scratch}),
                  MakeOp(2, {activation}, {{0, {50, 50}}})};
  return schedule;
}

TEST(ScheduleFactsTest, CountsWhatAnIterationAsksFor) {
  const absl::StatusOr<ScheduleFacts> facts = FindFacts(ThreeOps(), {});
  ASSERT_THAT(facts, IsOk());
  EXPECT_EQ(facts->persistent_bytes, 101u);
  EXPECT_EQ(facts->live.bytes, 116u);
  EXPECT_EQ(facts->live.op, 1u);
  EXPECT_EQ(facts->working_set.bytes, 110u);
  EXPECT_EQ(facts->working_set.op, 0u);
  EXPECT_EQ(facts->untouched, 1u);
  EXPECT_EQ(facts->unwritten, 1u);
  const KindFacts& activations = facts->kinds[static_cast<std::size_t>(TensorKind::kActivation)];
  EXPECT_EQ(activations.tensors, 2u);
  EXPECT_EQ(activations.bytes, 15u);
  EXPECT_EQ(activations.persistent_bytes, 0u);
  EXPECT_EQ(facts->kinds[0].persistent_bytes, 100u);
}

TEST(ScheduleFactsTest, TooManyPiecesAreRefused) {
  FileSchedule schedule{.tensors = {{.bytes = 1000}}};
  for (std::uint64_t i = 0; i < 100; ++i) {
    schedule.ops.push_back(MakeOp(i, {{0, {i, 1000 - 2 * i}}}, {}));
  }
  EXPECT_THAT(FindFacts(schedule, {}), IsOk());
  EXPECT_THAT(FindFacts(schedule, {.visits_max = 50}),
              sluice::testing::IsStatus(absl::StatusCode::kResourceExhausted,
                                        "101 pieces of tensors, and at most 50"));
  EXPECT_THAT(
      FindFacts(schedule, {.visits_max = 1000}),
      sluice::testing::IsStatus(absl::StatusCode::kResourceExhausted, "count in larger pages"));
  EXPECT_THAT(FindFacts(schedule, {.page_bytes = 4096, .visits_max = 101}), IsOk());
}

}  // namespace
}  // namespace sluice::sim
