#include <vector>

#include "gtest/gtest.h"
#include "tests/runtime/core/plan/planned_fixture.h"

namespace sluice::core {
namespace {

class HomesTest : public CoreFixture {
 protected:
  void StartKeeping(FrameIndex frames) {
    Start({.frames = {frames, 16}, .policy = "lru", .keeps_mappings = true});
  }
  MappingCounters mappings() { return driver().core().tier(0).mappings; }
};

TEST_F(HomesTest, APageFindsItsFrameThoughOthersWereInIt) {
  StartKeeping(1);
  Create(3, 1);
  for (int round = 0; round < 3; ++round) {
    for (PageIndex page = 0; page < 3; ++page) RunOp({Mapped(Write(page))});
  }
  EXPECT_EQ(mappings().first, 3u);
  EXPECT_EQ(mappings().again, 6u);
  EXPECT_EQ(mappings().in_place, 6u);
}

TEST_F(HomesTest, APageThatIsWantedElsewhereThanAtItsAddressKeepsItsHome) {
  StartKeeping(1);
  Create(2, 1);
  RunOp({Mapped(Write(0))});
  RunOp({Write(1)});
  RunOp({Write(0)});
  RunOp({Write(1)});
  RunOp({Mapped(Write(0))});
  EXPECT_EQ(mappings().first, 1u);
  EXPECT_EQ(mappings().again, 1u);
  EXPECT_EQ(mappings().in_place, 1u);
}

TEST_F(HomesTest, AFreedPageHasNoHome) {
  StartKeeping(1);
  Create(1, 1);
  RunOp({Mapped(Write(0))});
  driver().Send(FreePages{0, 1});
  driver().Drain();
  Create(1, 1);
  RunOp({Mapped(Write(0))});
  EXPECT_EQ(mappings().first, 2u);
  EXPECT_EQ(mappings().again, 0u);
}

TEST_F(HomesTest, ATierThatKeepsNoMappingsCountsNone) {
  Start({.frames = {1, 16}, .policy = "lru"});
  Create(2, 1);
  for (const PageIndex page : {0u, 1u, 0u, 1u}) RunOp({Mapped(Write(page))});
  EXPECT_EQ(mappings().first, 0u);
  EXPECT_EQ(mappings().again, 0u);
}

/// An iteration that follows a plan, in a tier that keeps mappings.
class PlannedHomesTest : public PlannedTest {
 protected:
  void StartKeeping(FrameIndex frames, PageIndex pages) {
    Start({.frames = {frames, 64}, .policy = "planned", .keeps_mappings = true});
    Create(pages, 1);
    for (PageIndex page = 0; page < pages; ++page) RunOp({Write(page)});
  }
  /// Pages of an iteration that come to another frame than before.
  std::uint64_t MovesOf(const Ops& ops) {
    const auto moves = [this] {
      const MappingCounters& mappings = driver().core().tier(0).mappings;
      return mappings.again - mappings.in_place;
    };
    const std::uint64_t before = moves();
    Iterate(ops);
    return moves() - before;
  }
};

TEST_F(PlannedHomesTest, PagesOfARepeatedIterationComeToBeAtHome) {
  StartKeeping(5, 11);
  Ops ops;
  for (const PageIndex page : {0u, 1u, 2u, 3u, 0u, 4u, 5u, 6u, 1u, 7u, 8u, 9u, 10u, 3u}) {
    ops.push_back({Mapped(Read(page))});
  }
  RecordAndAdopt(ops);
  std::uint64_t first = 0;
  for (int i = 0; i < 3; ++i) first += MovesOf(ops);
  EXPECT_GT(first, 0u) << "else the test shows nothing";
  for (int i = 0; i < 10; ++i) Iterate(ops);
  EXPECT_LE(MovesOf(ops), 1u);
}

}  // namespace
}  // namespace sluice::core
