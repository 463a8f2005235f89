#include "runtime/core/plan/stay_colouring.h"

#include <algorithm>
#include <ctime>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice::core {
namespace {

using ::testing::ElementsAre;

FrameIndex NoneIsMapped(PageIndex) { return kNoFrame; }

const std::vector<bool> kTwoFrames = {true, true};
const std::vector<PageIndex> kNobody = {kNoPage, kNoPage};

TEST(StaysOfTest, AStayBeginsWhereThePageComesAndEndsWhereItGoes) {
  const std::vector<FrameEvent> events = {{0, true}, {1, true}, {0, false}, {0, true}};
  EXPECT_THAT(StaysOf(events, kNobody), ElementsAre(Stay{0, 1, 3}, Stay{0, 4, 5}, Stay{1, 2, 5}));
}

TEST(StaysOfTest, APageThatOnlyGoesWasThereBefore) {
  EXPECT_THAT(StaysOf(std::vector<FrameEvent>{{3, false}}, kNobody), ElementsAre(Stay{3, 0, 1}));
}

TEST(StaysOfTest, AnOwnerWithoutAnEventIsThereAllAlong) {
  const std::vector<FrameEvent> events = {{0, true}};
  EXPECT_THAT(StaysOf(events, std::vector<PageIndex>{7, 0}),
              ElementsAre(Stay{0, 1, 2}, Stay{7, 0, 2}));
}

TEST(ColourStaysTest, PagesThatAreNeverThereTogetherShareAFrame) {
  const std::vector<Stay> stays = {{0, 1, 3}, {1, 2, 5}, {2, 3, 6}};
  const std::vector<FrameIndex> frames = ColourStays(stays, kNobody, kTwoFrames, NoneIsMapped);
  EXPECT_EQ(frames[0], frames[2]);
  EXPECT_NE(frames[0], frames[1]);
}

TEST(ColourStaysTest, APageThatIsThereKeepsItsFrame) {
  const std::vector<Stay> stays = {{0, 1, 3}, {1, 0, 2}, {1, 6, 8}};
  EXPECT_THAT(ColourStays(stays, std::vector<PageIndex>{1, kNoPage}, kTwoFrames, NoneIsMapped),
              ElementsAre(1, 0, 0));
}

TEST(ColourStaysTest, AllStaysOfAPageHaveOneFrameIfThatCanBe) {
  // Page 0 comes back while page 1 is there, so they cannot share a frame.
  const std::vector<Stay> stays = {{0, 1, 2}, {0, 4, 6}, {1, 3, 5}};
  EXPECT_THAT(ColourStays(stays, kNobody, kTwoFrames, NoneIsMapped), ElementsAre(0, 0, 1));
}

TEST(ColourStaysTest, StaysOfAPageHaveSeveralFramesIfNoneIsFreeForAll) {
  const std::vector<Stay> stays = {{0, 1, 2}, {0, 5, 6}, {1, 0, 4}, {2, 3, 7}};
  EXPECT_THAT(ColourStays(stays, std::vector<PageIndex>{1, 2}, kTwoFrames, NoneIsMapped),
              ElementsAre(1, 0, 0, 1));
}

TEST(ColourStaysTest, AStayThatFindsNoFrameHasNone) {
  const std::vector<Stay> stays = {{0, 1, 5}, {1, 2, 6}, {2, 3, 4}};
  EXPECT_THAT(ColourStays(stays, kNobody, kTwoFrames, NoneIsMapped), ElementsAre(0, 1, kNoFrame));
  EXPECT_THAT(ColourStays(stays, kNobody, {false, true}, NoneIsMapped),
              ElementsAre(1, kNoFrame, kNoFrame));
}

TEST(ColourStaysTest, APageThatIsMappedStaysThereAndComesBeforeTheOthers) {
  const std::vector<Stay> stays = {{0, 1, 5}, {1, 2, 6}, {2, 3, 4}};
  const auto mapped_to = [](PageIndex page) { return page == 0 ? kNoFrame : 2 - page; };
  EXPECT_THAT(ColourStays(stays, kNobody, kTwoFrames, mapped_to), ElementsAre(kNoFrame, 1, 0));
}

TEST(ColourStaysTest, ManyPagesThatFindNoFrameTakeLittleTime) {
  // Every frame is idle when each of the other pages comes, and taken when it comes back.
  constexpr FrameIndex kFrames = 30'000;
  std::vector<Stay> stays;
  std::vector<PageIndex> owners;
  for (PageIndex page = 0; page < kFrames; ++page) {
    owners.push_back(page);
    stays.push_back({page, 10, 20});
  }
  for (PageIndex page = kFrames; page < 2 * kFrames; ++page) {
    stays.push_back({page, 1, 2});
    stays.push_back({page, 12, 15});
  }
  const std::clock_t begin = std::clock();
  const std::vector<FrameIndex> homes =
      ColourStays(stays, owners, std::vector<bool>(kFrames, true), NoneIsMapped);
  EXPECT_LT(std::clock() - begin, 8 * CLOCKS_PER_SEC);
  EXPECT_EQ(homes.front(), 0u);
  EXPECT_EQ(homes.back(), kNoFrame) << "all frames are taken when it comes back";
}

/// Events of pages that come and go in any order while there are frames for them.
struct RandomIteration {
  std::vector<FrameEvent> events;
  std::vector<PageIndex> owners;

  RandomIteration(std::mt19937& random, FrameIndex frames) : owners(frames, kNoPage) {
    std::uniform_int_distribution<PageIndex> any_page(0, 3 * frames - 1);
    std::uniform_int_distribution<std::ptrdiff_t> any_frame(0, frames - 1);
    for (int i = 0; i < 200; ++i) {
      const PageIndex page = any_page(random);
      const auto there = std::find(owners.begin(), owners.end(), page);
      const auto place = there != owners.end() ? there : owners.begin() + any_frame(random);
      if (there == owners.end() && *place != kNoPage) continue;
      events.push_back({page, there == owners.end()});
      *place = there == owners.end() ? page : kNoPage;
    }
  }
};

TEST(ColourStaysTest, NoTwoPagesAreInAFrameAtATime) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int run = 0; run < 50; ++run) {
    const FrameIndex frames = std::uniform_int_distribution<FrameIndex>(2, 13)(random);
    const RandomIteration iteration(random, frames);
    const std::vector<Stay> stays = StaysOf(iteration.events, iteration.owners);
    const auto mapped_to = [&](PageIndex page) { return page % 3 == 0 ? kNoFrame : page % frames; };
    const std::vector<FrameIndex> homes =
        ColourStays(stays, iteration.owners, std::vector<bool>(frames, true), mapped_to);
    for (std::size_t a = 0; a < stays.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        const bool apart = stays[a].end <= stays[b].begin || stays[b].end <= stays[a].begin;
        EXPECT_TRUE(apart || homes[a] == kNoFrame || homes[a] != homes[b]) << a << " and " << b;
      }
      const auto owned = std::find(iteration.owners.begin(), iteration.owners.end(), stays[a].page);
      if (owned == iteration.owners.end()) continue;
      EXPECT_EQ(homes[a], owned - iteration.owners.begin());
    }
  }
}

}  // namespace
}  // namespace sluice::core
