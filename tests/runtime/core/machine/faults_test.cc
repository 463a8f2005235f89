#include <functional>
#include <utility>

#include "tests/runtime/core/driver/random_workload.h"
#include "tests/runtime/core/machine/faults_fixture.h"

namespace sluice::core {
namespace {

TEST_F(FaultsTest, LostPageFailsReadersAndOverwriteHeals) {
  StartTwoTiers(1);
  Create(2, 1);
  WriteDown(0, 1);
  FailAll(FailureKind::kSourceLost);
  const TicketNumber reader = Acquire({Read(0)});
  const TicketNumber writer = Acquire({Write(0)});
  const auto actions = driver().Drain();
  ASSERT_EQ(Select<LosePage>(actions).size(), 1u);
  EXPECT_EQ(Select<LosePage>(actions)[0].page, 0u);
  EXPECT_EQ(FailureOf(reader).reason, TicketFailure::kPageLost);
  EXPECT_EQ(FailureOf(reader).page, 0u);
  EXPECT_EQ(FailureOf(writer).reason, TicketFailure::kPageLost);
  FailNothing();
  EXPECT_EQ(FailureOf(Acquire({Read(0)})).reason, TicketFailure::kPageLost)
      << "the page stays lost";
  RunOp({Read(1)});  // other pages go on
  RunOp({Overwrite(0)});
  RunOp({Read(1)});
  RunOp({Read(0)});
}

TEST_F(FaultsTest, DiscardHealsALostPage) {
  StartTwoTiers(1);
  Create(2, 1);
  WriteDown(0, 1);
  FailAll(FailureKind::kSourceLost);
  Acquire({Read(0)});
  driver().Drain();
  FailNothing();
  driver().Send(DiscardPages{0, 1});
  RunOp({Read(0)});  // zeros
}

/// A page that can be reproduced, with its only copy in the lower of two tiers, which fails so.
class ReproduciblePageTest : public FaultsTest {
 protected:
  void ExpectReproducedAfter(FailureKind kind) {
    StartTwoTiers(1);
    Create({.segment = 1, .first_page = 0, .pages = 2, .lowest = 1, .reproducible = true});
    WriteDown(0, 1);
    FailCopiesTo(0, kind);
    const TicketNumber reader = Acquire({Read(0)});
    const auto actions = driver().Drain();
    EXPECT_TRUE(Select<LosePage>(actions).empty());
    ASSERT_EQ(Select<StartFill>(actions).size(), 1u);
    EXPECT_EQ(Select<StartFill>(actions)[0].kind, FillKind::kReproduce);
    EXPECT_TRUE(Granted(reader));
  }
};

TEST_F(ReproduciblePageTest, IsReproducedWhenItIsLost) {
  ExpectReproducedAfter(FailureKind::kSourceLost);
}

TEST_F(ReproduciblePageTest, IsReproducedWhenItCannotBeReadNow) {
  ExpectReproducedAfter(FailureKind::kSourceRefused);
  EXPECT_EQ(driver().fault_count(), 1u) << "the copy that cannot be read is not asked again";
  EXPECT_FALSE(Resident(0, 1)) << "the unreadable copy is not kept beside the new one";
}

TEST_F(FaultsTest, APageThatCannotBeReadNorReproducedStaysWhereItIs) {
  StartTwoTiers(1);
  Create({.segment = 1, .first_page = 0, .pages = 2, .lowest = 1, .reproducible = true});
  WriteDown(0, 1);
  driver().set_fault([](TaskNumber, const SimTask& task) -> std::optional<FailureKind> {
    return task.copy() != nullptr ? FailureKind::kSourceRefused : FailureKind::kSourceLost;
  });
  const TicketNumber reader = Acquire({Read(0)});
  const auto actions = driver().Drain();
  EXPECT_TRUE(Select<LosePage>(actions).empty());
  EXPECT_EQ(FailureOf(reader).reason, TicketFailure::kTierFull);
  FailNothing();
  EXPECT_TRUE(Select<StartFill>(driver().Drain()).empty());
  RunOp({Read(0)});
}

TEST_F(FaultsTest, TheNextTicketAsksForACopyThatCouldNotBeReadAgain) {
  StartTwoTiers(1);
  Create({.segment = 1, .first_page = 0, .pages = 2, .lowest = 1, .reproducible = true});
  WriteDown(0, 1);
  driver().set_fault([](TaskNumber, const SimTask& task) -> std::optional<FailureKind> {
    return task.copy() != nullptr ? FailureKind::kSourceRefused : FailureKind::kTargetFailed;
  });
  const TicketNumber first = Acquire({Read(0)});
  driver().Drain();
  EXPECT_EQ(FailureOf(first).reason, TicketFailure::kTierFull);
  FailNothing();
  const TicketNumber second = Acquire({Read(0)});
  driver().Drain();
  EXPECT_TRUE(Granted(second));
  EXPECT_TRUE(Resident(0, 1)) << "the page was read, not made again";
}

TEST_F(FaultsTest, APageThatCannotBeReadNowStaysWhereItIs) {
  StartTwoTiers(1);
  Create(2, 1);
  WriteDown(0, 1);
  FailCopiesTo(0, FailureKind::kSourceRefused);
  const TicketNumber reader = Acquire({Read(0)});
  const auto actions = driver().Drain();
  EXPECT_TRUE(Select<LosePage>(actions).empty());
  EXPECT_EQ(FailureOf(reader).reason, TicketFailure::kTierFull);
  FailNothing();
  RunOp({Read(0)});
}

TEST_F(FaultsTest, AnotherCopyHealsALostOne) {
  Start({.frames = {1, 8, 64}, .policy = "lru"});
  Create(2, 2);
  RunOp({Write(0)});
  RunOp({Read(1)});
  RunOp({Read(0)});  // the page is in tiers 0 and 1
  ASSERT_TRUE(Resident(0, 0) && Resident(0, 1));
  RunOp({Read(0, 1)});
  FailAll(FailureKind::kSourceLost);
  RunOp({Read(0)});  // nothing to copy, nothing to fail
  EXPECT_EQ(driver().fault_count(), 0u);
}

TEST_F(FaultsTest, FillThatHasNoRoomLosesNothing) {
  StartTwoTiers(1);
  Create({.segment = 1, .first_page = 0, .pages = 1, .lowest = 1, .file_home = true});
  int left = 1;
  driver().set_fault([&left](TaskNumber, const SimTask&) -> std::optional<FailureKind> {
    if (left-- > 0) return FailureKind::kTargetFailed;
    return std::nullopt;
  });
  RunOp({Read(0)});
  EXPECT_EQ(driver().core().counters().pages_lost, 0u);
}

TEST_F(FaultsTest, LossDuringAMappingIsNotForgotten) {
  Start({.frames = {2, 64}, .policy = "lru", .clean_share = 1});
  Create(2, 1);
  const TicketNumber writer = Acquire({Write(0)});
  driver().Drain();
  Release(writer);
  const auto copies = Select<StartCopy>(actions());
  ASSERT_EQ(copies.size(), 1u);
  const TicketNumber reader = Acquire({Mapped(Read(0))});
  const auto maps = Select<StartMap>(actions());
  ASSERT_EQ(maps.size(), 1u);
  driver().Failed(copies[0].task, FailureKind::kSourceLost);
  driver().Done(maps[0].task);
  driver().Drain();
  EXPECT_EQ(FailureOf(reader).reason, TicketFailure::kPageLost);
}

TEST_F(FaultsTest, TransientWriteFailureIsRetried) {
  StartTwoTiers(1);
  Create(2, 1);
  RunOp({Write(0)});
  int left = 1;
  driver().set_fault([&left](TaskNumber, const SimTask&) -> std::optional<FailureKind> {
    if (left-- > 0) return FailureKind::kTargetFull;
    return std::nullopt;
  });
  RunOp({Read(1)});
  RunOp({Read(0)});
  EXPECT_EQ(driver().fault_count(), 1u);
}

TEST_F(FaultsTest, FullTierIsFencedAndTheSourceStaysValid) {
  StartTwoTiers(1);
  Create(2, 1);
  RunOp({Write(0)});
  FailCopiesTo(1, FailureKind::kTargetFull);
  const TicketNumber other = Acquire({Read(1)});
  const auto actions = driver().Drain();
  EXPECT_EQ(Select<FenceTier>(actions).size(), 1u);
  EXPECT_EQ(FailureOf(other).reason, TicketFailure::kTierFull);
  EXPECT_LT(driver().fault_count(), 20u) << "retries are bounded";
  EXPECT_TRUE(Resident(0, 0));
  RunOp({Read(0)});  // the copy here can be used
  RunOp({Write(0)});
  FailNothing();
  for (int i = 0; i < 3; ++i) {  // the tier is tried again
    const TicketNumber again = Acquire({Read(1)});
    driver().Drain();
    if (!Granted(again)) continue;
    Release(again);
    RunOp({Read(0)});
    return;
  }
  ADD_FAILURE() << "the tier stays fenced though it takes pages again";
}

TEST_F(FaultsTest, ATicketAfterTheFenceHasTheTierAskedAgain) {
  Start({.frames = {2, 64}, .policy = "lru", .clean_share = 1});
  Create(4, 1);
  FailCopiesTo(1, FailureKind::kTargetFull);
  RunOp({Write(0), Write(1)});  // no ticket waits, though these pages are not cleaned
  ASSERT_GE(driver().fault_count(), 3u);
  RunOp({Read(0)});
  FailNothing();
  RunOp({Read(2), Read(3)});
}

TEST_F(FaultsTest, DeviceThatTakesNothingFailsTheTicketAndKeepsThePages) {
  StartTwoTiers(2);
  Create(3, 1);
  for (const PageIndex page : {0, 1, 2}) RunOp({Write(page)});
  FailCopiesTo(0, FailureKind::kTargetFull);
  const TicketNumber ticket = Acquire({Read(0)});
  driver().Drain();
  EXPECT_EQ(FailureOf(ticket).reason, TicketFailure::kTierFull);
  EXPECT_EQ(FailureOf(ticket).tier, 0);
  FailNothing();
  for (const PageIndex page : {0, 1, 2}) RunOp({Read(page)});
}

/// Fails the next `count` tasks for which `chosen` is true, without touching source or target.
void FailNext(VirtualDriver& driver, int count, std::function<bool(const SimTask&)> chosen) {
  driver.set_fault([count, chosen = std::move(chosen)](
                       TaskNumber, const SimTask& task) mutable -> std::optional<FailureKind> {
    if (count == 0 || !chosen(task)) return std::nullopt;
    --count;
    return FailureKind::kTargetFailed;
  });
}

TEST_F(FaultsTest, FailedReadsAreNoRefusedWrites) {
  Start({.frames = {1, 8, 64}, .policy = "lru"});
  Create({.segment = 9, .first_page = 5, .pages = 1, .lowest = 2, .file_home = true});
  Create(2, 2);
  FailNext(driver(), 2, [](const SimTask& task) { return task.copy() == nullptr; });
  RunOp({Read(5, 1)});
  RunOp({Write(0)});
  FailNext(driver(), 1, [](const SimTask& task) { return task.copy() != nullptr; });
  EXPECT_TRUE(Select<FenceTier>(RunOp({Write(1)})).empty()) << "one write to tier 1 failed";
  EXPECT_EQ(driver().fault_count(), 3u);
}

TEST_F(FaultsTest, APageThatCameStartsCountingAnew) {
  StartTwoTiers(1);
  Create(2, 1);
  WriteDown(0, 1);
  for (int round = 0; round < 4; ++round) {  // two failures each, never three in a row
    FailNext(driver(), 2, [](const SimTask& task) { return task.target == 0; });
    RunOp({Read(0)});
    FailNothing();
    RunOp({Read(1)});
  }
}

TEST_F(FaultsTest, AHintThatCannotBeFollowedIsGivenUp) {
  StartTwoTiers(1);
  Create(2, 1);
  WriteDown(0, 1);
  FailCopiesTo(0, FailureKind::kTargetFailed);
  driver().Send(PrefetchPages{{Read(0)}});
  for (int i = 0; i < 100; ++i) driver().Step();
  EXPECT_EQ(driver().fault_count(), 3u);
  FailNothing();
  RunOp({Read(0)});
}

TEST_F(FaultsTest, ARecordedUseThatCannotBePreparedWaitsForItsTicket) {
  Start({.frames = {3, 64}, .prefetch_ops = 4});
  Create(6, 1);
  for (PageIndex page = 0; page < 6; ++page) RunOp({Write(page)});
  for (int iteration = 0; iteration < 3; ++iteration) {
    driver().Send(BeginIteration{0});
    driver().set_fault([](TaskNumber, const SimTask& task) -> std::optional<FailureKind> {
      if (task.page != 3 || task.target != 0) return std::nullopt;
      return FailureKind::kTargetFailed;
    });
    if (iteration == 0) FailNothing();
    for (PageIndex page = 0; page < 6; ++page) {
      if (page == 3) FailNothing();
      const TicketNumber ticket = Acquire({Read(page)}, 0, 0, page);
      for (int i = 0; i < 100; ++i) driver().Step();
      ASSERT_TRUE(Granted(ticket));
      Release(ticket);
      for (int i = 0; i < 100; ++i) driver().Step();
    }
    driver().Send(EndIteration{});
  }
  EXPECT_GT(driver().fault_count(), 0u);
  EXPECT_LE(driver().fault_count(), 2u * 3u);
}

TEST_F(FaultsTest, AWantedCopyDownThatIsRefusedFailsItsTicket) {
  Start({.frames = {2, 8, 64}, .policy = "lru"});
  Create(1, 2);
  RunOp({Write(0)});
  ASSERT_TRUE(Resident(0, 0));
  FailCopiesTo(1, FailureKind::kTargetFailed);
  const TicketNumber wanted = Acquire({Read(0, 1)});
  for (int i = 0; i < 100; ++i) driver().Step();
  EXPECT_EQ(FailureOf(wanted).reason, TicketFailure::kTierFull);
  EXPECT_EQ(driver().fault_count(), 3u);
  FailNothing();
  RunOp({Read(0, 1)});
}

/// A fixed program; its N-th task fails, for every N, once or for good.
class CounterLoopTest : public ::testing::TestWithParam<std::tuple<FailureKind, bool>> {};

TEST_P(CounterLoopTest, EveryTaskMayFail) {
  const FailureKind kind = std::get<0>(GetParam());
  const bool persistent = std::get<1>(GetParam());
  Scenario scenario = RandomScenario(3);
  scenario.driver.frames = {3, 8, 40};
  scenario.driver.transit_frames = 1;
  scenario.op_pages_max = 3;
  scenario.pages = 16;
  scenario.threads = 2;
  scenario.iterations = true;
  scenario.events = 400;
  scenario.faults_per_mille = 0;
  scenario.budgets = scenario.segments = false;
  bool reached = true;
  TaskNumber fail_at = 1;
  for (; reached; ++fail_at) {
    RandomWorkload workload(scenario);
    reached = false;
    PageIndex bad_page = kNoPage;
    workload.driver().set_fault(
        [&](TaskNumber task, const SimTask& sim) -> std::optional<FailureKind> {
          if (sim.copy() == nullptr) return std::nullopt;
          const SimFrame& source =
              workload.driver().frames().frame(sim.copy()->source, sim.copy()->source_frame);
          if (kind == FailureKind::kSourceLost && (source.pins > 0 || source.readers > 1)) {
            return std::nullopt;
          }
          const bool first = !reached && task >= fail_at;
          if (first) bad_page = sim.page;
          reached = reached || first;
          const bool again = persistent && sim.page == bad_page && !workload.winding_down();
          return first || again ? std::optional(kind) : std::nullopt;
        });
    workload.Run();
    ASSERT_TRUE(workload.driver().verdict().ok())
        << "task " << fail_at << ": " << workload.driver().Report();
  }
  EXPECT_GT(fail_at, 50u);
}

INSTANTIATE_TEST_SUITE_P(Kinds,
                         CounterLoopTest,
                         ::testing::Combine(::testing::Values(FailureKind::kSourceLost,
                                                              FailureKind::kTargetFull,
                                                              FailureKind::kTargetFailed),
                                            ::testing::Bool()));

}  // namespace
}  // namespace sluice::core
