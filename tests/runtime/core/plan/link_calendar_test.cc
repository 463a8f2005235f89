#include "runtime/core/plan/link_calendar.h"

#include <vector>

#include "gtest/gtest.h"

namespace sluice::core {
namespace {

/// Ten steps of one second; a page takes half a second in and a quarter out: 2 in, 4 out per step.
constexpr PlanLink kLink{.in_s = 0.5, .out_s = 0.25};
const std::vector<double> kTenSteps(10, 1.0);

TEST(LinkCalendarTest, PagesOutAreDoneInTheStepAfterTheLastThatTheyNeed) {
  const LinkCalendar calendar(kTenSteps, kLink);
  EXPECT_EQ(calendar.OutDone(2, 10, 1), 3u);
  EXPECT_EQ(calendar.OutDone(2, 10, 4), 3u) << "a whole step";
  EXPECT_EQ(calendar.OutDone(2, 10, 5), 4u);
  EXPECT_EQ(calendar.OutDone(2, 10, 12), 5u);
}

TEST(LinkCalendarTest, PagesInBeginAsLateAsTheyCan) {
  const LinkCalendar calendar(kTenSteps, kLink);
  EXPECT_EQ(calendar.InBegin(0, 8, 1), 7u);
  EXPECT_EQ(calendar.InBegin(0, 8, 2), 7u) << "a whole step";
  EXPECT_EQ(calendar.InBegin(0, 8, 3), 6u);
  EXPECT_EQ(calendar.InBegin(0, 8, 7), 4u);
}

TEST(LinkCalendarTest, PagesOutBeginAsLateAsTheyCan) {
  const LinkCalendar calendar(kTenSteps, kLink);
  EXPECT_EQ(calendar.OutBegin(0, 8, 1), 7u);
  EXPECT_EQ(calendar.OutBegin(0, 8, 4), 7u) << "a whole step";
  EXPECT_EQ(calendar.OutBegin(0, 8, 5), 6u);
  EXPECT_EQ(calendar.OutBegin(6, 8, 9), 6u) << "nine pages do not fit";
}

TEST(LinkCalendarTest, PagesThatDoNotFitEndAtTheEdges) {
  const LinkCalendar calendar(kTenSteps, kLink);
  EXPECT_EQ(calendar.OutDone(2, 4, 8), 4u);
  EXPECT_EQ(calendar.OutDone(2, 4, 9), 4u);
  EXPECT_EQ(calendar.InBegin(2, 4, 4), 2u);
  EXPECT_EQ(calendar.InBegin(2, 4, 5), 2u);
  EXPECT_EQ(calendar.OutDone(3, 3, 1), 3u) << "no step at all";
  EXPECT_EQ(calendar.InBegin(3, 3, 1), 3u);
}

TEST(LinkCalendarTest, LongStepsTakeMore) {
  const LinkCalendar calendar(std::vector<double>{1, 0, 3, 1}, kLink);
  EXPECT_EQ(calendar.OutDone(0, 4, 5), 3u) << "4 in step 0, none in step 1";
  EXPECT_EQ(calendar.OutDone(0, 4, 16), 3u);
  EXPECT_EQ(calendar.OutDone(0, 4, 17), 4u);
  EXPECT_EQ(calendar.InBegin(0, 3, 6), 2u);
  EXPECT_EQ(calendar.InBegin(0, 3, 7), 0u);
}

TEST(LinkCalendarTest, TimeTakenForPagesOutIsGone) {
  LinkCalendar calendar(kTenSteps, kLink);
  calendar.TakeOut(2, 10, 6);  // all of step 2, half of step 3
  EXPECT_EQ(calendar.OutDone(2, 10, 2), 4u);
  EXPECT_EQ(calendar.OutDone(2, 10, 3), 5u);
  EXPECT_EQ(calendar.OutDone(2, 10, 6), 5u);
  EXPECT_EQ(calendar.OutDone(2, 10, 7), 6u);
  EXPECT_EQ(calendar.OutDone(1, 10, 4), 2u) << "the step before is free";
  EXPECT_EQ(calendar.InBegin(0, 4, 4), 2u) << "the other direction is not disturbed";
}

TEST(LinkCalendarTest, TimeTakenForPagesInIsGone) {
  LinkCalendar calendar(kTenSteps, kLink);
  calendar.TakeIn(0, 8, 3);  // all of step 7, half of step 6
  EXPECT_EQ(calendar.InBegin(0, 8, 1), 6u);
  EXPECT_EQ(calendar.InBegin(0, 8, 2), 5u);
  EXPECT_EQ(calendar.InBegin(0, 8, 3), 5u);
  EXPECT_EQ(calendar.InBegin(0, 8, 4), 4u);
  EXPECT_EQ(calendar.InBegin(0, 9, 2), 8u) << "the step after is free";
  EXPECT_EQ(calendar.OutDone(6, 10, 8), 8u) << "the other direction is not disturbed";
}

TEST(LinkCalendarTest, TakesNoMoreThanTheStepsInBetweenHave) {
  LinkCalendar calendar(kTenSteps, kLink);
  calendar.TakeOut(2, 3, 9);
  EXPECT_EQ(calendar.OutDone(2, 10, 1), 4u);
  EXPECT_EQ(calendar.OutDone(3, 10, 4), 4u) << "step 3 is outside";
}

TEST(LinkCalendarTest, WrapsOverTheEndOfTheIteration) {
  LinkCalendar calendar(kTenSteps, kLink);
  EXPECT_EQ(calendar.OutDone(9, 20, 6), 11u) << "steps 9 and 0 of the next";
  EXPECT_EQ(calendar.InBegin(5, 11, 3), 9u);
  calendar.TakeOut(9, 20, 6);
  EXPECT_EQ(calendar.OutDone(0, 10, 3), 2u) << "half of step 0 is taken";
  EXPECT_EQ(calendar.OutDone(10, 20, 3), 12u);
  calendar.TakeIn(5, 11, 3);  // all of step 0, half of step 9
  EXPECT_EQ(calendar.InBegin(5, 11, 1), 9u);
  EXPECT_EQ(calendar.InBegin(5, 10, 2), 8u);
  EXPECT_EQ(calendar.InBegin(15, 20, 2), 18u);
}

/// A page in and a page out at once take a second, a page alone half of one: in a step 2 pages go
/// in or 2 out, but only 2.5 in all (0.4 s each).
constexpr PlanLink kShared{.in_s = 0.5, .out_s = 0.5, .both_s = 0.4};

TEST(LinkCalendarTest, DirectionsShareWhatBothHave) {
  LinkCalendar calendar(kTenSteps, kShared);
  EXPECT_EQ(calendar.OutDone(0, 10, 2), 1u) << "alone, a direction is not slowed down";
  calendar.TakeOut(4, 10, 2);  // 0.8 s of 1 s are gone: half a page may still come in
  EXPECT_EQ(calendar.InBegin(0, 5, 0.5), 4u);
  EXPECT_EQ(calendar.InBegin(0, 5, 0.6), 3u);
  calendar.TakeIn(4, 6, 2.5);  // 2 in step 5, 0.5 in step 4
  EXPECT_EQ(calendar.OutDone(4, 10, 0.5), 6u) << "step 4 is full, step 5 has 0.2 s left";
  EXPECT_EQ(calendar.OutDone(4, 10, 0.6), 7u);
}

TEST(LinkCalendarTest, TheRateOfBothDirectionsBoundsOneAlone) {
  // 0.8 s per page in all: 1.25 pages in a step, though each direction alone would take 2.
  const LinkCalendar calendar(kTenSteps, {.in_s = 0.5, .out_s = 0.5, .both_s = 0.8});
  EXPECT_EQ(calendar.OutDone(0, 10, 1.25), 1u);
  EXPECT_EQ(calendar.OutDone(0, 10, 1.5), 2u);
  EXPECT_EQ(calendar.InBegin(0, 10, 1.5), 8u);
}

}  // namespace
}  // namespace sluice::core
