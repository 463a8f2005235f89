#include "runtime/engine/control/step_clock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

namespace sluice::engine {
namespace {

using std::chrono::seconds;

/// A clock under the events of a core. Times are in seconds.
class StepClockTest : public ::testing::Test {
 protected:
  void Tell(int at, const core::Event& event, std::vector<core::Action> actions = {}) {
    clock_.Observe(event, actions, StepClock::TimePoint(seconds(100 + at)));
  }
  void Begin(int at, core::KeyIndex key = 0) { Tell(at, core::BeginIteration{key}); }
  void Ask(int at, core::TicketNumber ticket, std::vector<core::Action> actions = {}) {
    Tell(at,
         core::Acquire{.ticket = ticket, .requests = {{.page = 1}, {.page = 2, .leases = 2}}},
         std::move(actions));
  }
  void AskAndGet(int at, core::TicketNumber ticket) { Ask(at, ticket, {Granted(ticket)}); }
  void GiveBack(int at, core::TicketNumber ticket, std::vector<core::Action> actions = {}) {
    Tell(at, core::Release{ticket, {1, 2, 2}}, std::move(actions));
  }
  static core::Action Granted(core::TicketNumber ticket) { return core::GrantTicket{ticket, {}}; }

  StepClock clock_;
};

TEST_F(StepClockTest, WaitingForPagesTakesNoTime) {
  Begin(0);
  AskAndGet(1, 1);
  GiveBack(4, 1);
  Ask(5, 2);                                  // nobody holds pages: the clock stands
  Tell(25, core::TaskDone{7}, {Granted(2)});  // a wait of 20 s
  GiveBack(27, 2);
  Tell(28, core::EndIteration{});
  const auto times = clock_.TakeIteration();
  ASSERT_TRUE(times.has_value());
  EXPECT_EQ(times->key, 0u);
  EXPECT_DOUBLE_EQ(times->seconds, 8);
  ASSERT_EQ(times->steps.size(), 2u);
  EXPECT_DOUBLE_EQ(times->steps[0].begin_s, 1);
  EXPECT_DOUBLE_EQ(times->steps[0].end_s, 4);
  EXPECT_DOUBLE_EQ(times->steps[1].begin_s, 5);
  EXPECT_DOUBLE_EQ(times->steps[1].end_s, 7);
  EXPECT_FALSE(clock_.TakeIteration().has_value()) << "an iteration is told once";
}

TEST_F(StepClockTest, AnIterationWithTooManyStepsHasNoTimes) {
  StepClock clock(2);
  const auto tell = [&](const core::Event& event, std::vector<core::Action> actions = {}) {
    clock.Observe(event, actions, StepClock::TimePoint(seconds(100)));
  };
  for (const core::TicketNumber steps : {3, 2}) {
    tell(core::BeginIteration{0});
    for (core::TicketNumber ticket = 1; ticket <= steps; ++ticket) {
      tell(core::Acquire{.ticket = ticket, .requests = {{.page = 1}}}, {Granted(ticket)});
      tell(core::Release{ticket, {1}});
    }
    tell(core::EndIteration{});
    EXPECT_EQ(clock.TakeIteration().has_value(), steps == 2);
  }
}

TEST_F(StepClockTest, AStepThatComputesMeanwhileTakesTime) {
  Begin(0);
  AskAndGet(0, 1);
  Ask(1, 2);  // asked for ahead, while the first one computes until 6
  GiveBack(6, 1);
  Tell(10, core::TaskDone{7}, {Granted(2)});
  GiveBack(13, 2);
  Begin(13);  // ends the one before
  const auto times = clock_.TakeIteration();
  ASSERT_TRUE(times.has_value());
  EXPECT_DOUBLE_EQ(times->seconds, 9);
  EXPECT_DOUBLE_EQ(times->steps[0].end_s, 6);
  EXPECT_DOUBLE_EQ(times->steps[1].begin_s, 1);
  EXPECT_DOUBLE_EQ(times->steps[1].end_s, 9);
}

TEST_F(StepClockTest, LeasesThatComeBackOneByOneEndTheStepWithTheLast) {
  Begin(0);
  AskAndGet(0, 1);
  Tell(2, core::Release{1, {2}});
  Tell(3, core::Release{1, {1, 2}});
  Tell(5, core::EndIteration{});
  EXPECT_DOUBLE_EQ(clock_.TakeIteration()->steps[0].end_s, 3);
}

TEST_F(StepClockTest, ARefusedTicketHoldsNothingUp) {
  Begin(0);
  Ask(1, 1, {core::FailTicket{.ticket = 1}});
  Ask(2, 2);
  Tell(5, core::Cancel{2}, {core::FailTicket{.ticket = 2}});
  Tell(6, core::EndIteration{});
  const auto times = clock_.TakeIteration();
  EXPECT_DOUBLE_EQ(times->seconds, 3) << "1 to 2, and 5 to 6 and 0 to 1";
}

TEST_F(StepClockTest, AStepThatOutlastsItsIterationHasNoEndInIt) {
  Begin(0);
  AskAndGet(1, 1);
  Begin(3, 1);
  EXPECT_TRUE(std::isinf(clock_.TakeIteration()->steps[0].end_s));
  AskAndGet(4, 2);
  GiveBack(5, 2);
  GiveBack(6, 1);  // a lease of no step of this iteration
  Tell(7, core::EndIteration{});
  const auto times = clock_.TakeIteration();
  EXPECT_EQ(times->key, 1u);
  ASSERT_EQ(times->steps.size(), 1u);
  EXPECT_DOUBLE_EQ(times->steps[0].end_s, 2);
}

TEST_F(StepClockTest, OpsOutsideOfIterationsAreNoSteps) {
  AskAndGet(0, 1);
  GiveBack(1, 1);
  Tell(2, core::EndIteration{});
  EXPECT_FALSE(clock_.TakeIteration().has_value());
}

TEST_F(StepClockTest, EachStepKnowsItsLane) {
  Begin(0);
  Tell(1, core::Acquire{.ticket = 1, .lane = 4});
  Tell(2, core::Acquire{.ticket = 2, .lane = 3});
  Tell(3, core::EndIteration{});
  EXPECT_EQ(clock_.TakeIteration()->lanes, (std::vector<core::LaneIndex>{4, 3}));
}

std::vector<double> Begins(const std::optional<IterationTimes>& times) {
  std::vector<double> begins;
  for (const core::StepTime& step : times->steps) begins.push_back(step.begin_s);
  return begins;
}

TEST(RecordedOrderTest, LanesMayBeInterleavedInAnotherWay) {
  const IterationTimes times{
      .key = 1, .steps = {{0, 1}, {1, 2}, {2, 3}, {3, 4}}, .lanes = {7, 2, 2, 7}, .seconds = 4};
  const std::vector<core::RecordedStep> recorded = {
      {.lane = 2}, {.lane = 7}, {.lane = 7}, {.lane = 2}};
  const auto ordered = InRecordedOrder(times, recorded);
  ASSERT_TRUE(ordered.has_value());
  EXPECT_EQ(Begins(ordered), (std::vector<double>{1, 0, 3, 2}));
  EXPECT_EQ(ordered->lanes, (std::vector<core::LaneIndex>{2, 7, 7, 2}));
  EXPECT_EQ(ordered->key, 1u);
  EXPECT_EQ(ordered->seconds, 4);
}

TEST(RecordedOrderTest, TimesOfAnotherIterationHaveNoRecordedOrder) {
  const IterationTimes times{.key = 0, .steps = {{0, 1}, {1, 2}}, .lanes = {0, 1}, .seconds = 4};
  const std::vector<core::RecordedStep> same = {{.lane = 0}, {.lane = 0}};
  const std::vector<core::RecordedStep> more = {{.lane = 0}, {.lane = 1}, {.lane = 1}};
  EXPECT_FALSE(InRecordedOrder(times, same).has_value());
  EXPECT_FALSE(InRecordedOrder(times, more).has_value());
}

TEST(JitterTest, ComparesPlacesNotLengths) {
  const IterationTimes before{.key = 0, .steps = {{0, 1}, {1, 2}, {2, 3}, {3, 4}}, .seconds = 4};
  EXPECT_DOUBLE_EQ(JitterBetween(before, before), 0);
  const IterationTimes slower{.key = 0, .steps = {{0, 2}, {2, 4}, {4, 6}, {6, 8}}, .seconds = 8};
  EXPECT_DOUBLE_EQ(JitterBetween(before, slower), 0);
  const IterationTimes uneven{.key = 0, .steps = {{0, 1}, {1, 2}, {2, 3}, {3.5, 4}}, .seconds = 4};
  EXPECT_DOUBLE_EQ(JitterBetween(before, uneven), std::sqrt(0.5 * 0.5 / 4));
}

}  // namespace
}  // namespace sluice::engine
