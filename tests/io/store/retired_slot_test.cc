// Slots that lost a page for good are not used again, and what for good means.
#include <cerrno>
#include <map>
#include <random>
#include <set>

#include "gtest/gtest.h"
#include "tests/io/drives/drive_set_fixture.h"
#include "tests/support/status_matchers.h"

namespace sluice::io {
namespace {

using testing::DriveSetFixture;
using testing::HasCode;
using testing::IsOk;
using testing::IsStatus;
using Code = absl::StatusCode;

class RetiredSlotTest : public DriveSetFixture {
 protected:
  std::uint64_t retired() const { return store_->stats().retired; }
};

TEST_F(RetiredSlotTest, ASlotThatIsNotReadIsNotUsedForAnotherPage) {
  Open(1, 4);
  for (SlotIndex slot = 0; slot < 4; ++slot) ASSERT_THAT(Write(slot, 1), IsOk());
  drives_[0]->Break(1);  // place of slot 1, since the slots were written in order
  EXPECT_THAT(Read(1, 1), IsStatus(Code::kDataLoss, "read failed after 2 attempts: EIO"));
  EXPECT_THAT(Read(1, 1), HasCode(Code::kDataLoss)) << "the slot is asked again, and counted once";
  EXPECT_EQ(retired(), 1u);
  for (std::uint64_t generation = 2; generation < 6; ++generation) {
    for (SlotIndex slot = 0; slot < 4; ++slot) ASSERT_THAT(Write(slot, generation), IsOk());
    for (SlotIndex slot = 0; slot < 4; ++slot) ASSERT_THAT(Read(slot, generation), IsOk());
  }
  EXPECT_EQ(retired(), 1u);
}

TEST_F(RetiredSlotTest, WithoutSpareSlotsTheErrorSaysWhy) {
  Open(1, 4);
  for (SlotIndex slot = 0; slot < 4; ++slot) ASSERT_THAT(Write(slot, 1), IsOk());
  for (const SlotIndex slot : {1u, 2u}) {
    drives_[0]->Break(slot);
    EXPECT_THAT(Read(slot, 1), HasCode(Code::kDataLoss));
  }
  EXPECT_THAT(Write(1, 2), IsOk()) << "a slot is to spare";
  EXPECT_THAT(Write(2, 2),
              IsStatus(Code::kResourceExhausted,
                       "slot 2: the drive has no room, 2 places lost a page and are used no more"));
  store_->Forget(3);
  EXPECT_THAT(Write(2, 2), IsOk());
  EXPECT_THAT(Read(2, 2), IsOk());
}

TEST_F(RetiredSlotTest, AFlippedByteRetiresTheSlot) {
  Open(1, 4);
  ASSERT_THAT(Write(0, 1), IsOk());
  drives_[0]->file.Flip(100);
  EXPECT_THAT(Read(0, 1), IsStatus(Code::kDataLoss, "read twice"));
  EXPECT_EQ(retired(), 1u);
  ASSERT_THAT(Write(0, 2), IsOk());
  drives_[0]->file.Flip(100);
  EXPECT_THAT(Read(0, 2), IsOk()) << "the page is elsewhere";
}

TEST_F(RetiredSlotTest, ErrorsThatPassOrAreNotTheMediumsRetireNothing) {
  Open(1, 4);
  ASSERT_THAT(Write(0, 1), IsOk());
  EXPECT_THAT(Read(0, 2), IsStatus(Code::kDataLoss, "wanted segment 1 page 0 generation 2"));
  drives_[0]->reads_to_fail = 1;
  EXPECT_THAT(Read(0, 1), IsOk()) << "the second attempt";
  drives_[0]->read_error = EBADF;
  EXPECT_THAT(Read(0, 1), HasCode(Code::kInternal));
  drives_[0]->read_error = 0;
  drives_[0]->file.Truncate(0);
  EXPECT_THAT(Read(0, 1), IsStatus(Code::kDataLoss, "truncated"));
  EXPECT_EQ(retired(), 0u);
}

TEST_F(RetiredSlotTest, EachDriveCountsItsOwn) {
  Open(2, 8);
  for (SlotIndex slot = 0; slot < 8; ++slot) ASSERT_THAT(Write(slot, 1), IsOk());
  drives_[1]->Break(0);
  drives_[1]->Break(2);
  std::set<SlotIndex> lost;
  for (SlotIndex slot = 0; slot < 8; ++slot) {
    if (!Read(slot, 1).ok()) lost.insert(slot);
  }
  EXPECT_EQ(lost.size(), 2u);
  const PageStoreStats stats = store_->stats();
  EXPECT_EQ(stats.drives[0].retired, 0u);
  EXPECT_EQ(stats.drives[1].retired, 2u);
  EXPECT_EQ(stats.drives[1].places, 5u) << "half of them, and one to spare";
  EXPECT_EQ(stats.retired, 2u);
  for (SlotIndex slot = 0; slot < 8; ++slot) ASSERT_THAT(Write(slot, 2), IsOk());
  for (SlotIndex slot = 0; slot < 8; ++slot) EXPECT_THAT(Read(slot, 2), IsOk());
}

TEST_F(RetiredSlotTest, ASlotThatRefusesAWriteIsTakenLast) {
  const std::map<int, Code> errors = {
      {EIO, Code::kInternal}, {ENOSPC, Code::kResourceExhausted}, {EAGAIN, Code::kUnavailable}};
  for (const auto& [error, code] : errors) {
    Open(1, 4);
    drives_[0]->Break(0, error);
    EXPECT_THAT(Write(0, 1), HasCode(code));
    for (SlotIndex slot = 0; slot < 4; ++slot) EXPECT_THAT(Write(slot, 1), IsOk());
    EXPECT_EQ(retired(), 0u) << "the slot has lost nothing";
  }
}

TEST_F(RetiredSlotTest, StatsOfADriveAloneAreThoseOfTheStore) {
  Open(1, 1024);
  for (SlotIndex slot = 0; slot < 40; ++slot) ASSERT_THAT(Write(slot, 1), IsOk());
  drives_[0]->Break(3);
  EXPECT_THAT(Read(3, 1), HasCode(Code::kDataLoss));
  EXPECT_THAT(Read(4, 1), IsOk());
  const PageStoreStats stats = store_->stats();
  ASSERT_EQ(stats.drives.size(), 1u);
  const DriveStats& drive = stats.drives[0];
  EXPECT_EQ(drive.writes, 40u);
  EXPECT_EQ(drive.reads, 1u);
  EXPECT_EQ(drive.places, 1026u) << "one in 512 to spare";
  EXPECT_EQ(drive.retired, 1u);
  EXPECT_GT(drive.bytes_per_second, 0);
  EXPECT_EQ(drive.bytes_per_second_at_start, 0);
  EXPECT_FALSE(drive.fenced);
}

/// Places that break at any moment: no page comes back wrong, each that was lost is lost once, and
/// as many slots are retired.
TEST_F(RetiredSlotTest, RandomLossesAgreeWithAShadow) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    constexpr SlotIndex kTriedSlots = 24;
    constexpr std::uint64_t kLossesMax = 8;
    Open(1, kTriedSlots);
    std::map<SlotIndex, std::uint64_t> shadow;
    std::uint64_t losses = 0;
    for (std::uint64_t step = 1; step <= 400; ++step) {
      const auto slot = static_cast<SlotIndex>(random() % (kTriedSlots - kLossesMax));
      if (random() % 20 == 0) drives_[0]->BreakReads(random() % kTriedSlots);
      if (random() % 3 == 0 && losses < kLossesMax) {
        shadow[slot] = step;
        ASSERT_THAT(Write(slot, step), IsOk());
      } else if (shadow.contains(slot) && losses < kLossesMax) {
        const absl::Status status = Read(slot, shadow[slot]);
        if (status.ok()) continue;
        EXPECT_THAT(status, HasCode(Code::kDataLoss));
        shadow.erase(slot);
        store_->Forget(slot);
        ++losses;
      }
    }
    EXPECT_EQ(retired(), losses);
    EXPECT_GT(losses, 0u);
  }
}

}  // namespace
}  // namespace sluice::io
