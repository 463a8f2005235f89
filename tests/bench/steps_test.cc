#include "bench/store/steps.h"

#include <algorithm>
#include <set>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace sluice::bench {
namespace {

constexpr std::uint64_t kPageBytes = 1 << 20;
constexpr std::uint32_t kPages = 32;

Load MakeLoad(Direction direction, Pattern pattern) {
  return {.which = {.direction = direction, .pattern = pattern, .page_bytes = kPageBytes},
          .depth = 4,
          .milliseconds = 60'000,
          .file_bytes = kPages * kPageBytes};
}

std::vector<Step> TakeAll(Steps& steps) {
  std::vector<Step> taken;
  for (auto step = steps.Next(); step.has_value(); step = steps.Next()) {
    taken.push_back(*step);
    steps.Finished(*step, absl::OkStatus());
  }
  return taken;
}

TEST(StepsTest, OnePassTouchesEveryPageOnce) {
  for (const Pattern pattern : {Pattern::kSeq, Pattern::kRandom}) {
    Steps steps(Steps::OnePass(MakeLoad(Direction::kRead, pattern)));
    const std::vector<Step> taken = TakeAll(steps);
    std::set<std::uint32_t> pages;
    for (const Step& step : taken) pages.insert(step.page);
    EXPECT_EQ(taken.size(), kPages);
    EXPECT_EQ(pages.size(), kPages);
    EXPECT_EQ(steps.bytes(), kPages * kPageBytes);
  }
}

TEST(StepsTest, OnlyASequenceIsInOrder) {
  const auto by_page = [](const Step& a, const Step& b) { return a.page < b.page; };
  Steps sequence(Steps::OnePass(MakeLoad(Direction::kWrite, Pattern::kSeq)));
  Steps random(Steps::OnePass(MakeLoad(Direction::kWrite, Pattern::kRandom)));
  const std::vector<Step> in_order = TakeAll(sequence);
  const std::vector<Step> shuffled = TakeAll(random);
  EXPECT_TRUE(std::is_sorted(in_order.begin(), in_order.end(), by_page));
  EXPECT_FALSE(std::is_sorted(shuffled.begin(), shuffled.end(), by_page));
}

TEST(StepsTest, AMixWritesEverySecondPageFarFromTheReads) {
  Steps steps(MakeLoad(Direction::kMix, Pattern::kSeq));
  const Step first = *steps.Next();
  const Step second = *steps.Next();
  const Step third = *steps.Next();
  EXPECT_FALSE(first.writes);
  EXPECT_TRUE(second.writes);
  EXPECT_FALSE(third.writes);
  EXPECT_EQ(first.page, 0U);
  EXPECT_EQ(second.page, kPages / 2);
  EXPECT_EQ(third.page, 1U);
}

TEST(StepsTest, APageInFlightIsNotTakenAgain) {
  Steps steps(MakeLoad(Direction::kRead, Pattern::kSeq));
  const Step held = *steps.Next();
  for (std::uint32_t i = 0; i < 3 * kPages; ++i) {
    const Step step = *steps.Next();
    EXPECT_NE(step.page, held.page);
    steps.Finished(step, absl::OkStatus());
  }
}

TEST(StepsTest, TheFirstErrorEndsTheStretch) {
  Steps steps(MakeLoad(Direction::kRead, Pattern::kSeq));
  steps.Finished(*steps.Next(), absl::DataLossError("torn"));
  for (int place = 0; place < 4; ++place) EXPECT_FALSE(steps.Next().has_value());
  steps.Wait();
  EXPECT_THAT(steps.status(), testing::IsStatus(absl::StatusCode::kDataLoss, "torn"));
  EXPECT_EQ(steps.bytes(), 0U);
}

TEST(StepsTest, AFailureEndsTheStretch) {
  Steps steps(MakeLoad(Direction::kRead, Pattern::kSeq));
  const Step held = *steps.Next();
  steps.Fail(absl::CancelledError("enough"));
  steps.Finished(held, absl::OkStatus());
  for (int place = 0; place < 4; ++place) EXPECT_FALSE(steps.Next().has_value());
  steps.Wait();
  EXPECT_THAT(steps.status(), testing::IsStatus(absl::StatusCode::kCancelled, "enough"));
}

}  // namespace
}  // namespace sluice::bench
