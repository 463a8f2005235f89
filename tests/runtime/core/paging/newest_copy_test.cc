#include "gtest/gtest.h"
#include "tests/runtime/core/machine/faults_fixture.h"

namespace sluice::core {
namespace {

using Kind = CopyPlace::Kind;

class NewestCopyTest : public FaultsTest {
 protected:
  NewestCopy Find(PageIndex page, TierIndex first = 0) {
    return driver().core().FindNewest(page, first);
  }
};

TEST_F(NewestCopyTest, IsWhereItWasAskedForElseInAnotherTier) {
  StartTwoTiers(2);
  Create(3, 1);
  EXPECT_EQ(Find(0).place.kind, Kind::kZeros);
  EXPECT_EQ(Find(99).place.kind, Kind::kNowhere) << "no page";
  RunOp({Write(0)});
  EXPECT_EQ(Find(0).place.kind, Kind::kFrame);
  EXPECT_EQ(Find(0).place.tier, 0);
  EXPECT_EQ(Find(0, 1).place.tier, 0) << "the only one";
  RunOp({Write(1)});
  RunOp({Write(2)});
  ASSERT_FALSE(Resident(0, 0));
  EXPECT_EQ(Find(0).place.tier, 1);
  RunOp({Read(0)});
  ASSERT_TRUE(Resident(0, 0));
  EXPECT_EQ(Find(0).place.tier, 0);
  EXPECT_EQ(Find(0, 1).place.tier, 1);
  RunOp({Write(0)});
  EXPECT_EQ(Find(0, 1).place.tier, 0) << "the slot is that of an older generation";
}

TEST_F(NewestCopyTest, AFileHomeHoldsItUntilItIsWritten) {
  StartTwoTiers(2);
  Create({.segment = 1, .first_page = 0, .pages = 1, .lowest = 1, .file_home = true});
  EXPECT_EQ(Find(0).place.kind, Kind::kFile);
  RunOp({Write(0)});
  EXPECT_EQ(Find(0).place.kind, Kind::kFrame);
  driver().Send(DiscardPages{0, 1});
  driver().Drain();
  EXPECT_EQ(Find(0).place.kind, Kind::kZeros);
}

TEST_F(NewestCopyTest, ADiscardWaitsForALease) {
  StartTwoTiers(2);
  Create(1, 1);
  const TicketNumber ticket = Acquire({Write(0)});
  driver().Drain();
  ASSERT_TRUE(Granted(ticket));
  EXPECT_FALSE(Find(0).dies);
  driver().Send(DiscardPages{0, 1});
  EXPECT_TRUE(Find(0).dies);
  EXPECT_EQ(Find(0).place.kind, Kind::kFrame);
  Release(ticket);
  driver().Drain();
  EXPECT_FALSE(Find(0).dies);
  EXPECT_EQ(Find(0).place.kind, Kind::kZeros);
}

TEST_F(NewestCopyTest, ALostPageIsNowhere) {
  StartTwoTiers(1);
  Create(2, 1);
  WriteDown(0, 1);
  FailAll(FailureKind::kSourceLost);
  Acquire({Read(0)});
  driver().Drain();
  EXPECT_EQ(Find(0).place.kind, Kind::kNowhere);
}

}  // namespace
}  // namespace sluice::core
