#include "runtime/core/schedule/schedule_book.h"

#include <vector>

#include "tests/runtime/core/core_fixture.h"

namespace sluice::core {
namespace {

core::Acquire ReadOf(std::vector<PageIndex> pages) {
  core::Acquire acquire;
  for (const PageIndex page : pages) acquire.requests.push_back(Read(page));
  return acquire;
}

/// An iteration of as many ops of one page each.
void Iterate(ScheduleBook* book, KeyIndex key, int ops) {
  book->Begin(key);
  for (int i = 0; i < ops; ++i) book->Advance(ReadOf({static_cast<PageIndex>(i)}));
  book->End();
}

TEST(ScheduleBookTest, TheLeastRecentlyUsedScheduleIsDropped) {
  ScheduleBook book({.schedules_max = 2});
  Iterate(&book, 1, 3);
  Iterate(&book, 2, 3);
  Iterate(&book, 1, 3);
  EXPECT_EQ(book.dropped(), 0u);
  Iterate(&book, 3, 3);
  EXPECT_TRUE(book.Has(1) && book.Has(3));
  EXPECT_FALSE(book.Has(2));
  EXPECT_EQ(book.FingerprintOf(2), 0u);
  EXPECT_EQ(book.dropped(), 1u);
  book.Begin(1);
  EXPECT_TRUE(book.following());
  book.Begin(2);
  EXPECT_FALSE(book.following());
}

TEST(ScheduleBookTest, ManyKeysKeepAsManySchedulesAsAreAllowed) {
  ScheduleBook book({.schedules_max = 8});
  for (KeyIndex key = 0; key < 1000; ++key) Iterate(&book, key, 2);
  int kept = 0;
  for (KeyIndex key = 0; key < 1000; ++key) kept += book.Has(key) ? 1 : 0;
  EXPECT_EQ(kept, 8);
  EXPECT_TRUE(book.Has(999) && book.Has(992));
}

TEST(ScheduleBookTest, AllSchedulesTogetherAreBounded) {
  ScheduleBook book({.accesses_max = 30});  // an op and its page are two
  for (KeyIndex key = 1; key <= 3; ++key) Iterate(&book, key, 5);
  EXPECT_EQ(book.dropped(), 0u);
  Iterate(&book, 4, 6);
  EXPECT_FALSE(book.Has(1) || book.Has(2));
  EXPECT_TRUE(book.Has(3) && book.Has(4));
  EXPECT_EQ(book.dropped(), 2u);
}

TEST(ScheduleBookTest, AScheduleThatReplacesItsKeysCountsOnce) {
  ScheduleBook book({.accesses_max = 30});
  Iterate(&book, 1, 5);
  for (int i = 0; i < 20; ++i) Iterate(&book, 2, 4 + i % 2);
  EXPECT_TRUE(book.Has(1) && book.Has(2));
  EXPECT_EQ(book.dropped(), 0u);
}

TEST(ScheduleBookTest, AnIterationThatIsTooLongIsNotRecorded) {
  ScheduleBook book({.accesses_max = 30});
  Iterate(&book, 1, 15);
  EXPECT_EQ(book.too_long(), 0u);
  Iterate(&book, 2, 16);
  EXPECT_EQ(book.too_long(), 1u);
  EXPECT_TRUE(book.Has(1)) << "nothing is dropped for it";
  EXPECT_FALSE(book.Has(2));
  EXPECT_TRUE(book.Steps(2).empty());
  EXPECT_FALSE(book.Begin(2) && book.following());
}

TEST(ScheduleBookTest, AnIterationThatNeverEndsStopsBeingRecorded) {
  ScheduleBook book({.accesses_max = 30});
  book.Begin(1);
  for (PageIndex i = 0; i < 100; ++i) {
    book.Advance(ReadOf({i}));
    book.NoteDeath(i);
    EXPECT_EQ(book.now(), i + 1u) << "positions go on";
  }
  EXPECT_EQ(book.too_long(), 1u);
  Iterate(&book, 1, 3);
  EXPECT_TRUE(book.Has(1));
  book.Begin(1);
  EXPECT_TRUE(book.following());
}

TEST(ScheduleBookTest, AKeyWhoseIterationBecomesTooLongLosesItsSchedule) {
  ScheduleBook book({.accesses_max = 30});
  Iterate(&book, 1, 5);
  Iterate(&book, 1, 40);
  EXPECT_FALSE(book.Has(1));
  EXPECT_EQ(book.divergences(), 1u);
  Iterate(&book, 2, 5);
  Iterate(&book, 3, 5);
  EXPECT_EQ(book.dropped(), 0u) << "the room of the dropped schedule is free again";
}

/// Limits of schedules, through a core.
class ScheduleLimitsTest : public CoreFixture {
 protected:
  void Iterate(KeyIndex key) {
    driver().Send(BeginIteration{key});
    for (PageIndex page = 0; page < 8; ++page) RunOp({Write(page)}, 0, page);
    driver().Send(EndIteration{});
  }
};

TEST_F(ScheduleLimitsTest, APlanGoesWithItsSchedule) {
  Start({.frames = {4, 64}, .policy = "planned", .schedules = {.schedules_max = 1}});
  Create(8, 1);
  Iterate(0);
  const std::uint64_t recording = driver().core().RecordingOf(0);
  auto plan = std::make_shared<Plan>();
  plan->recording = recording;
  plan->leaves.resize(8);
  plan->fetches.resize(8);
  driver().Send(AdoptPlan{0, plan});
  EXPECT_EQ(plan.use_count(), 2 + 1) << "the core and the driver's log hold the plan";
  Iterate(1);
  EXPECT_EQ(driver().core().RecordingOf(0), 0u);
  EXPECT_EQ(driver().core().counters().schedules_dropped, 1u);
  EXPECT_EQ(plan.use_count(), 1 + 1);
  driver().Send(AdoptPlan{0, plan});  // one that comes late
  EXPECT_EQ(plan.use_count(), 1 + 2);
}

TEST_F(ScheduleLimitsTest, IterationsThatAreTooLongWorkAsIfThereWereNone) {
  Start({.frames = {4, 64}, .policy = "planned", .schedules = {.accesses_max = 10}});
  Create(8, 1);
  for (int i = 0; i < 3; ++i) Iterate(0);
  EXPECT_EQ(driver().core().counters().iterations_too_long, 3u);
  EXPECT_EQ(driver().core().counters().divergences, 0u);
  EXPECT_TRUE(driver().core().RecordedSteps(0).empty());
}

}  // namespace
}  // namespace sluice::core
