#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/runtime/core/core_fixture.h"

/// Events that a policy is told: Note [What is an access] of paging_policy.h.

namespace sluice::core {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class PolicyEventsTest : public CoreFixture {
 protected:
  void StartLogged(DriverOptions options) {
    options.policy_log = &log_;
    Start(options);
  }
  /// The lines that contain `text`.
  std::vector<std::string> Lines(const std::string& text) const {
    std::vector<std::string> lines;
    std::copy_if(log_.begin(), log_.end(), std::back_inserter(lines), [&](const auto& line) {
      return line.find(text) != std::string::npos;
    });
    return lines;
  }

  std::vector<std::string> log_;
};

TEST_F(PolicyEventsTest, ALeaseIsOneAccessAndNoDeparture) {
  StartLogged({.frames = {2, 64}, .policy = "lru"});
  Create(2, 1);
  RunOp({Write(0)});
  EXPECT_THAT(Lines("0:0"),
              ElementsAre("access 0:0", "insert 0:0"));  // no candidate before its ticket has it
  const TicketNumber one = Acquire({Read(0)});
  const TicketNumber other = Acquire({Read(0)});
  Release(one);
  Release(other);
  EXPECT_EQ(Lines("access 0:0").size(), 3u);
  EXPECT_THAT(Lines("leave"), IsEmpty());
}

TEST_F(PolicyEventsTest, CleaningIsNoAccess) {
  StartLogged({.frames = {2, 64}, .policy = "lru", .clean_share = 1});
  Create(1, 1);
  RunOp({Write(0)});
  EXPECT_EQ(driver().core().counters().cleaned, 1u);
  EXPECT_EQ(Lines("access").size(), 1u);
  EXPECT_EQ(Lines("0:0").back(), "insert 0:0 free");
  EXPECT_THAT(Lines("leave"), IsEmpty());
}

TEST_F(PolicyEventsTest, AVictimLeavesOnceAndArrivesAgain) {
  StartLogged({.frames = {1, 64}, .policy = "lru"});
  Create(2, 1);
  RunOp({Write(0)});
  RunOp({Write(1)});
  EXPECT_THAT(Lines("leave"), ElementsAre("leave 0:0 victim"));
  RunOp({Read(0)});
  EXPECT_THAT(Lines("leave"), ElementsAre("leave 0:0 victim", "leave 0:1 victim"));
  EXPECT_EQ(Lines("0:0").back(), "insert 0:0 free");
}

TEST_F(PolicyEventsTest, AnEvictionThatFailsIsAnArrival) {
  StartLogged({.frames = {1, 64}, .policy = "lru"});
  Create(2, 1);
  RunOp({Write(0)});
  bool failed = false;
  driver().set_fault([&](TaskNumber, const SimTask&) -> std::optional<FailureKind> {
    if (std::exchange(failed, true)) return std::nullopt;
    return FailureKind::kTargetFull;
  });
  log_.clear();
  RunOp({Read(1)});
  EXPECT_THAT(
      Lines("0:0"),
      ElementsAre(
          "remove 0:0", "leave 0:0 victim", "insert 0:0", "remove 0:0", "leave 0:0 victim"));
}

TEST_F(PolicyEventsTest, DeadAndFreedPagesAreNoVictims) {
  StartLogged({.frames = {4, 8, 64}, .policy = "lru", .transit_frames = 1});
  Create(2, 2);
  RunOp({Write(0)});
  driver().Send(DiscardPages{0, 1});
  EXPECT_THAT(Lines("leave"), ElementsAre("leave 0:0 other"));
  RunOp({Write(1)});
  log_.clear();
  driver().Send(FreePages{0, 2});
  EXPECT_THAT(Lines("leave"),
              ElementsAre("leave 0:0 freed",
                          "leave 1:0 freed",
                          "leave 0:1 other",
                          "leave 0:1 freed",
                          "leave 1:1 freed"));
}

TEST_F(PolicyEventsTest, FramesAreToldAtFirstAndWhenTheyChange) {
  StartLogged({.frames = {4, 8, 64}, .policy = "lru", .transit_frames = 1});
  EXPECT_THAT(log_, ElementsAre("frames 0 4", "frames 1 6"));
  log_.clear();
  driver().Send(SetBudget{.tier = 0, .frames = 3});
  driver().Send(ReserveFrames{.reservation = 1, .tier = 1, .frames = 2});
  driver().Send(ReleaseFrames{1});
  EXPECT_THAT(log_, ElementsAre("frames 0 3", "frames 1 4", "frames 1 6"));
}

TEST_F(PolicyEventsTest, APageLeavesALoweredBudgetUnremembered) {
  StartLogged({.frames = {2, 64}, .policy = "lru"});
  Create(2, 1);
  RunOp({Write(0)});
  RunOp({Write(1)});
  driver().Send(SetBudget{.tier = 0, .frames = 1});
  driver().Drain();
  ASSERT_EQ(Lines("leave").size(), 1u);
  EXPECT_THAT(Lines("leave")[0], HasSubstr("other"));
}

TEST_F(PolicyEventsTest, TheWayUpIsAnAccessOfTheTierBelow) {
  StartLogged({.frames = {1, 8, 64}, .policy = "lru", .transit_frames = 1});
  Create(2, 2);
  RunOp({Write(0)});
  RunOp({Write(1)});
  EXPECT_THAT(Lines(" 1:0"), ElementsAre("insert 1:0"));
  RunOp({Read(0)});
  EXPECT_EQ(Lines("access 1:0").size(), 1u);
}

TEST_F(PolicyEventsTest, OnlyPoliciesOfTheScheduleAreToldNextUses) {
  for (const std::string policy : {"lru", "min"}) {
    log_.clear();
    StartLogged({.frames = {2, 64}, .policy = policy, .prefetch_ops = 2});
    Create(4, 1);
    for (int iteration = 0; iteration < 3; ++iteration) {
      driver().Send(BeginIteration{0});
      for (const PageIndex page : {0, 1, 2, 3}) RunOp({Read(page)});
      driver().Send(EndIteration{});
    }
    EXPECT_EQ(Lines(" use ").empty(), policy == "lru");
  }
}

TEST_F(PolicyEventsTest, PagesThatWillBeOverwrittenReturnForFree) {
  StartLogged({.frames = {2, 64}, .policy = "min"});
  Create(1, 1);
  for (int iteration = 0; iteration < 2; ++iteration) {
    driver().Send(BeginIteration{0});
    RunOp({Overwrite(0)});
    EXPECT_EQ(Lines("0:0").back(), iteration == 0 ? "insert 0:0" : "insert 0:0 use 2 returns");
    driver().Send(EndIteration{});
  }
}

}  // namespace
}  // namespace sluice::core
