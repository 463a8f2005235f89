#include <vector>

#include "gtest/gtest.h"
#include "tests/runtime/core/core_fixture.h"

namespace sluice::core {
namespace {

class FramesTest : public CoreFixture {
 protected:
  void StartKeeping(FrameIndex frames) {
    Start({.frames = {frames, 16}, .policy = "lru", .keeps_mappings = true});
  }
  MappingCounters mappings() { return driver().core().tier(0).mappings; }
};

TEST_F(FramesTest, APageFindsItsFrameThoughOthersWereInIt) {
  StartKeeping(1);
  Create(3, 1);
  for (int round = 0; round < 3; ++round) {
    for (PageIndex page = 0; page < 3; ++page) RunOp({Mapped(Write(page))});
  }
  EXPECT_EQ(mappings().first, 3u);
  EXPECT_EQ(mappings().again, 6u);
  EXPECT_EQ(mappings().in_place, 6u);
}

TEST_F(FramesTest, APageThatIsWantedElsewhereThanAtItsAddressKeepsItsHome) {
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

TEST_F(FramesTest, AFreedPageHasNoHome) {
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

TEST_F(FramesTest, ATierThatKeepsNoMappingsCountsNone) {
  Start({.frames = {1, 16}, .policy = "lru"});
  Create(2, 1);
  for (const PageIndex page : {0u, 1u, 0u, 1u}) RunOp({Mapped(Write(page))});
  EXPECT_EQ(mappings().first, 0u);
  EXPECT_EQ(mappings().again, 0u);
}

}  // namespace
}  // namespace sluice::core
