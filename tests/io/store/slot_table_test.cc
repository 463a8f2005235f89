#include "io/store/slot_table.h"

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace sluice::io {
namespace {

using testing::HasCode;
using testing::IsOk;
using testing::IsStatus;

constexpr PageIdentity kIdentity{1, 2, 3};

TEST(SlotTableTest, HoldsAPageOnceItsWriteEnds) {
  SlotTable table(2);
  EXPECT_THAT(table.BeginWrite(1), IsOk());
  EXPECT_THAT(table.BeginRead(1, kIdentity), HasCode(absl::StatusCode::kNotFound));
  table.EndWrite(1, kIdentity, 77);
  const absl::StatusOr<std::uint64_t> checksum = table.BeginRead(1, kIdentity);
  ASSERT_THAT(checksum, IsOk());
  EXPECT_EQ(*checksum, 77U);
}

TEST(SlotTableTest, AnAbandonedWriteLeavesNothing) {
  SlotTable table(1);
  EXPECT_THAT(table.BeginWrite(0), IsOk());
  table.EndWrite(0, kIdentity, 77);
  EXPECT_THAT(table.BeginWrite(0), IsOk());
  table.AbandonWrite(0);
  EXPECT_THAT(table.BeginRead(0, kIdentity), HasCode(absl::StatusCode::kNotFound));
}

TEST(SlotTableTest, ForgettingDuringAWriteOutlastsItsEnd) {
  SlotTable table(1);
  EXPECT_THAT(table.BeginWrite(0), IsOk());
  table.Forget(0);
  EXPECT_THAT(table.BeginWrite(0), HasCode(absl::StatusCode::kFailedPrecondition));
  table.EndWrite(0, kIdentity, 77);
  EXPECT_THAT(table.BeginRead(0, kIdentity), HasCode(absl::StatusCode::kNotFound));
  EXPECT_THAT(table.BeginWrite(0), IsOk());
}

TEST(SlotTableTest, ASlotThatIsReadIsNotWritten) {
  SlotTable table(1);
  EXPECT_THAT(table.BeginWrite(0), IsOk());
  table.EndWrite(0, kIdentity, 77);
  EXPECT_THAT(table.BeginRead(0, kIdentity), IsOk());
  EXPECT_THAT(table.BeginRead(0, kIdentity), IsOk());
  EXPECT_THAT(table.BeginWrite(0),
              IsStatus(absl::StatusCode::kFailedPrecondition, "written while a read"));
  table.Forget(0);
  table.EndRead(0);
  EXPECT_THAT(table.BeginWrite(0), HasCode(absl::StatusCode::kFailedPrecondition));
  table.EndRead(0);
  EXPECT_THAT(table.BeginWrite(0), IsOk());
}

TEST(SlotTableTest, AnotherPageIsDataLossAndCountsNoReader) {
  SlotTable table(1);
  EXPECT_THAT(table.BeginWrite(0), IsOk());
  table.EndWrite(0, kIdentity, 77);
  EXPECT_THAT(table.BeginRead(0, {1, 2, 4}), HasCode(absl::StatusCode::kDataLoss));
  EXPECT_THAT(table.BeginWrite(0), IsOk());
}

TEST(SlotTableTest, AWriteIsHastenedUntilItEnds) {
  SlotTable table(2);
  table.Hasten(1);
  EXPECT_FALSE(table.hastened(1)) << "there is no write";
  for (const bool ends_well : {true, false}) {
    EXPECT_THAT(table.BeginWrite(1), IsOk());
    EXPECT_FALSE(table.hastened(1)) << "nobody waits for this one";
    table.Hasten(1);
    EXPECT_TRUE(table.hastened(1));
    EXPECT_FALSE(table.hastened(0));
    ends_well ? table.EndWrite(1, kIdentity, 77) : table.AbandonWrite(1);
    EXPECT_FALSE(table.hastened(1));
  }
}

}  // namespace
}  // namespace sluice::io
