#include "io/store/slot_table.h"

#include <optional>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace sluice::io {
namespace {

using testing::HasCode;
using testing::IsOk;
using testing::IsStatus;
using Code = absl::StatusCode;
using ReadEnd = SlotTable::ReadEnd;

constexpr PageIdentity kIdentity{1, 2, 3};

TEST(SlotTableTest, HoldsAPageOnceItsWriteEnds) {
  SlotTable table(2, 2);
  const absl::StatusOr<SlotIndex> place = table.BeginWrite(1);
  ASSERT_THAT(place, IsOk());
  EXPECT_THAT(table.BeginRead(1, kIdentity), HasCode(Code::kNotFound));
  EXPECT_THAT(table.FindPlace(1), HasCode(Code::kNotFound));
  table.EndWrite(1, kIdentity, 77);
  const absl::StatusOr<SlotTable::StoredPage> stored = table.BeginRead(1, kIdentity);
  ASSERT_THAT(stored, IsOk());
  EXPECT_EQ(stored->checksum, 77U);
  EXPECT_EQ(stored->place, *place);
  EXPECT_EQ(*table.FindPlace(1), *place);
}

TEST(SlotTableTest, AnAbandonedWriteLeavesNothing) {
  SlotTable table(1, 1);
  EXPECT_THAT(table.BeginWrite(0), IsOk());
  table.EndWrite(0, kIdentity, 77);
  EXPECT_THAT(table.BeginWrite(0), IsOk());
  table.AbandonWrite(0);
  EXPECT_THAT(table.BeginRead(0, kIdentity), HasCode(Code::kNotFound));
}

TEST(SlotTableTest, ForgettingDuringAWriteOutlastsItsEnd) {
  SlotTable table(1, 1);
  EXPECT_THAT(table.BeginWrite(0), IsOk());
  table.Forget(0);
  EXPECT_THAT(table.BeginWrite(0), HasCode(Code::kFailedPrecondition));
  table.EndWrite(0, kIdentity, 77);
  EXPECT_THAT(table.BeginRead(0, kIdentity), HasCode(Code::kNotFound));
  EXPECT_THAT(table.BeginWrite(0), IsOk());
}

TEST(SlotTableTest, ASlotThatIsReadIsNotWritten) {
  SlotTable table(1, 2);
  EXPECT_THAT(table.BeginWrite(0), IsOk());
  table.EndWrite(0, kIdentity, 77);
  EXPECT_THAT(table.BeginRead(0, kIdentity), IsOk());
  EXPECT_THAT(table.BeginRead(0, kIdentity), IsOk());
  EXPECT_THAT(table.BeginWrite(0), IsStatus(Code::kFailedPrecondition, "written while a read"));
  table.Forget(0);
  table.EndRead(0, ReadEnd::kPlaceIsGood);
  EXPECT_THAT(table.BeginWrite(0), HasCode(Code::kFailedPrecondition));
  table.EndRead(0, ReadEnd::kPlaceIsGood);
  EXPECT_THAT(table.BeginWrite(0), IsOk());
}

TEST(SlotTableTest, AnotherPageIsDataLossAndCountsNoReader) {
  SlotTable table(1, 1);
  EXPECT_THAT(table.BeginWrite(0), IsOk());
  table.EndWrite(0, kIdentity, 77);
  EXPECT_THAT(table.BeginRead(0, {1, 2, 4}), HasCode(Code::kDataLoss));
  EXPECT_THAT(table.BeginWrite(0), IsOk());
}

TEST(SlotTableTest, AWriteIsHastenedUntilItEnds) {
  SlotTable table(2, 2);
  EXPECT_EQ(table.Hasten(1), std::nullopt) << "no write is under way";
  for (const bool ends_well : {true, false}) {
    const absl::StatusOr<SlotIndex> place = table.BeginWrite(1);
    ASSERT_THAT(place, IsOk());
    EXPECT_FALSE(table.hastened(*place)) << "nobody waits for this one";
    EXPECT_EQ(table.Hasten(1), *place);
    EXPECT_TRUE(table.hastened(*place));
    EXPECT_FALSE(table.hastened(1 - *place));
    ends_well ? table.EndWrite(1, kIdentity, 77) : table.AbandonWrite(1);
    EXPECT_FALSE(table.hastened(*place));
  }
}

/// A table whose slots hold pages.
class SlotPlacesTest : public ::testing::Test {
 protected:
  static constexpr SlotIndex kSlots = 4;

  SlotIndex Write(SlotIndex slot) {
    const absl::StatusOr<SlotIndex> place = table_.BeginWrite(slot);
    EXPECT_THAT(place, IsOk());
    table_.EndWrite(slot, kIdentity, 77);
    return place.value_or(kSlots);
  }
  void Read(SlotIndex slot, ReadEnd end) {
    EXPECT_THAT(table_.BeginRead(slot, kIdentity), IsOk());
    table_.EndRead(slot, end);
  }

  SlotTable table_{kSlots, kSlots};
};

TEST_F(SlotPlacesTest, PagesWrittenInARowAreNeighbours) {
  for (SlotIndex i = 0; i < kSlots; ++i) EXPECT_EQ(Write(kSlots - 1 - i), i);
}

TEST_F(SlotPlacesTest, APageThatIsWrittenAgainTakesItsPlace) {
  for (SlotIndex slot = 0; slot < kSlots; ++slot) Write(slot);
  EXPECT_EQ(Write(2), 2U);
  table_.Forget(1);
  table_.Forget(3);
  EXPECT_EQ(Write(1), 3U) << "the place that was free last";
}

TEST(SlotTableTest, APlaceThatIsReadIsNotGivenToAnother) {
  SlotTable table(2, 1);
  EXPECT_THAT(table.BeginWrite(0), IsOk());
  table.EndWrite(0, kIdentity, 77);
  EXPECT_THAT(table.BeginRead(0, kIdentity), IsOk());
  EXPECT_THAT(table.BeginRead(0, kIdentity), IsOk());
  table.Forget(0);
  table.EndRead(0, ReadEnd::kPlaceIsGood);
  EXPECT_THAT(table.BeginWrite(1), HasCode(Code::kResourceExhausted)) << "one read is left";
  table.EndRead(0, ReadEnd::kPlaceIsGood);
  EXPECT_THAT(table.BeginWrite(1), IsOk());
}

TEST_F(SlotPlacesTest, APlaceThatLostAPageIsRetiredOnce) {
  Write(0);
  Read(0, ReadEnd::kPlaceIsGood);
  EXPECT_EQ(table_.retired(), 0U);
  Read(0, ReadEnd::kPlaceLostPage);
  Read(0, ReadEnd::kPlaceLostPage);
  EXPECT_EQ(table_.retired(), 1U);
  for (SlotIndex slot = 0; slot < 3; ++slot) EXPECT_NE(Write(slot), 0U);
  EXPECT_THAT(table_.BeginWrite(3),
              IsStatus(Code::kResourceExhausted,
                       "slot 3: the drive has no room, 1 places lost a page and are used no more"));
}

TEST_F(SlotPlacesTest, APlaceThatRefusesAPageIsTakenLast) {
  EXPECT_EQ(*table_.BeginWrite(0), 0U);
  table_.AbandonWrite(0);
  for (const SlotIndex place : {1U, 2U, 3U, 0U}) EXPECT_EQ(Write(place), place);
}

TEST(SlotTableTest, SlotsMayShareFewerPlaces) {
  SlotTable table(3, 2);
  for (const SlotIndex slot : {2U, 0U}) {
    EXPECT_THAT(table.BeginWrite(slot), IsOk());
    table.EndWrite(slot, kIdentity, 77);
  }
  EXPECT_THAT(table.BeginWrite(1), HasCode(Code::kResourceExhausted));
  table.Forget(2);
  EXPECT_THAT(table.BeginWrite(1), IsOk());
}

}  // namespace
}  // namespace sluice::io
