#include "io/drive_places.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"

namespace sluice::io {
namespace {

/// Pages 0 to 9 on the first drive, 10 to 19 on the second.
class DrivePlacesTest : public ::testing::Test {
 protected:
  DrivePlacesTest() {
    for (SlotIndex slot = 0; slot < 20; ++slot) Put(slot, slot / 10);
  }

  void Put(SlotIndex slot, std::uint32_t drive) {
    places_.Take(slot, drive);
    places_.Acknowledge(slot);
    places_.RemoveUser(slot);
  }
  void ExpectCounts(SlotIndex staying, SlotIndex leaving, SlotIndex room) {
    EXPECT_EQ(places_.staying(0), staying);
    EXPECT_EQ(places_.leaving(0), leaving);
    EXPECT_EQ(places_.room(0), room);
  }

  DrivePlaces places_{30, {15, 15}};
};

TEST_F(DrivePlacesTest, PagesThatAreToLeaveAreSpreadAndMarkedOnce) {
  EXPECT_EQ(places_.MarkLeaving(0, 5), (std::vector<SlotIndex>{0, 2, 4, 6, 8}));
  ExpectCounts(5, 5, 5);
  EXPECT_EQ(places_.MarkLeaving(0, 3), (std::vector<SlotIndex>{1, 3, 7}));
  EXPECT_EQ(places_.MarkLeaving(0, 10), (std::vector<SlotIndex>{5, 9}));
  EXPECT_TRUE(places_.MarkLeaving(0, 10).empty());
  ExpectCounts(0, 10, 5);
  EXPECT_EQ(places_.leaving(1), 0u);
}

TEST_F(DrivePlacesTest, OnlyPagesThatAreThereAreToLeave) {
  places_.Forget(3);
  places_.AddUser(4);
  places_.Forget(4);
  places_.Take(20, 0);
  const std::vector<SlotIndex> marked = places_.MarkLeaving(0, 20);
  EXPECT_EQ(marked, (std::vector<SlotIndex>{0, 1, 2, 5, 6, 7, 8, 9}));
  ExpectCounts(2, 8, 5);  // one is on its way there, one is read before it is gone
  places_.RemoveUser(4);
  ExpectCounts(1, 8, 6);
}

TEST_F(DrivePlacesTest, WhatWasToLeaveAndIsGoneOrThereAnewIsNotToLeave) {
  places_.MarkLeaving(0, 4);  // 0, 2, 5, 7
  places_.Forget(0);
  ExpectCounts(6, 3, 6);
  places_.Forget(2);
  Put(2, 0);
  ExpectCounts(7, 2, 6);
  EXPECT_EQ(places_.MarkLeaving(0, 20).size(), 7u);
}

}  // namespace
}  // namespace sluice::io
