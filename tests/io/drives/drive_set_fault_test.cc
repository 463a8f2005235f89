// Drives that refuse pages, lose them and come back: the next place of pages, and the drives that
// are fenced.
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "io/drives/drive_set.h"
#include "io/store/medium_fault.h"
#include "tests/io/drives/drive_set_fixture.h"
#include "tests/support/status_matchers.h"
#include "tests/support/store/page_buffer.h"

namespace sluice::io {
namespace {

using testing::DriveSetFixture;
using testing::FakeDrive;
using testing::HasCode;
using testing::IsOk;
using testing::IsStatus;
using testing::Outcome;
using testing::PageBuffer;
using Code = absl::StatusCode;

class DriveSetFaultTest : public DriveSetFixture {};

TEST_F(DriveSetFaultTest, AWriteThatADriveRefusesGoesToTheNext) {
  Open(2, 8);
  drives_[0]->write_error = ENOSPC;
  for (SlotIndex slot = 0; slot < 5; ++slot) ASSERT_THAT(Write(slot, 1), IsOk());
  EXPECT_EQ(writes(0), 0u);
  EXPECT_EQ(writes(1), 5u);
  EXPECT_THAT(Write(5, 1), HasCode(Code::kResourceExhausted)) << "the other is full";
  EXPECT_TRUE(fenced().empty()) << "a full drive has not failed";
  for (SlotIndex slot = 0; slot < 5; ++slot) EXPECT_THAT(Read(slot, 1), IsOk());
  drives_[0]->write_error = 0;
  EXPECT_THAT(Write(5, 1), IsOk());
}

TEST_F(DriveSetFaultTest, AnErrorOfAllDrivesIsThatOfTheLast) {
  Open(2, 8);
  drives_[0]->write_error = drives_[1]->write_error = EIO;
  EXPECT_THAT(Write(1, 1), IsStatus(Code::kInternal, "drive /drive"));
  EXPECT_THAT(Read(1, 1), HasCode(Code::kNotFound));
  drives_[0]->write_error = drives_[1]->write_error = 0;
  EXPECT_THAT(Write(1, 2), IsOk());
  EXPECT_THAT(Read(1, 2), IsOk());
}

TEST_F(DriveSetFaultTest, ADriveThatFailsIsFencedAndItsPagesAreNamed) {
  Open(2, 20);
  for (SlotIndex slot = 0; slot < 8; ++slot) ASSERT_THAT(Write(slot, 1), IsOk());
  drives_[0]->write_error = EIO;
  for (SlotIndex slot = 8; slot < 14; ++slot) ASSERT_THAT(Write(slot, 1), IsOk()) << slot;
  ASSERT_EQ(fenced().size(), 1u);
  EXPECT_EQ(fenced()[0].directory, "/drive0");
  EXPECT_EQ(fenced()[0].slots.size(), 4u);
  EXPECT_THAT(fenced()[0].cause, HasCode(Code::kInternal));
  EXPECT_TRUE(store_->stats().drives[0].fenced);
  EXPECT_FALSE(store_->stats().drives[1].fenced);
  // A fenced drive is read, but never written again, even if it would take pages.
  drives_[0]->write_error = 0;
  const std::vector<SlotIndex> slots = fenced()[0].slots;
  for (const SlotIndex slot : slots) EXPECT_THAT(Read(slot, 1), IsOk());
  EXPECT_THAT(Write(14, 1), IsOk());
  EXPECT_EQ(writes(1), 11u) << "full";
  EXPECT_THAT(Write(15, 1),
              IsStatus(Code::kResourceExhausted,
                       "slot 15: no drive has room, drives that failed take no pages"));
  store_->Forget(13);
  EXPECT_THAT(Write(15, 1), IsOk());
  EXPECT_EQ(writes(0), 4u);
}

TEST_F(DriveSetFaultTest, ADriveThatCannotBeReadIsFenced) {
  Open(2, 20);
  for (SlotIndex slot = 0; slot < 10; ++slot) ASSERT_THAT(Write(slot, 1), IsOk());
  drives_[1]->read_error = EIO;
  int lost = 0;
  for (SlotIndex slot = 0; slot < 10; ++slot) {
    const absl::Status status = Read(slot, 1);
    if (status.ok()) continue;
    EXPECT_THAT(status, IsStatus(Code::kDataLoss, "drive /drive1"));
    ++lost;
  }
  EXPECT_EQ(lost, 5);
  ASSERT_EQ(fenced().size(), 1u);
  EXPECT_EQ(fenced()[0].directory, "/drive1");
}

TEST_F(DriveSetFaultTest, ADriveThatTakesPagesAndGivesNoneBackIsFenced) {
  Open(2, 40);
  for (SlotIndex slot = 0; slot < 10; ++slot) ASSERT_THAT(Write(slot, 1), IsOk());
  drives_[1]->read_error = EIO;
  for (SlotIndex slot = 0; slot < 10; ++slot) {
    (void)Read(slot, 1);
    ASSERT_THAT(Write(20 + slot, 1), IsOk());
  }
  EXPECT_EQ(fenced().size(), 1u);
}

class DriveErrnoTest : public DriveSetFaultTest, public ::testing::WithParamInterface<int> {};

// Reads alone find out, before anything is written there.
TEST_P(DriveErrnoTest, ADriveThatIsGoneIsFencedAndKeepsItsPages) {
  Open(2, 20);
  for (SlotIndex slot = 0; slot < 10; ++slot) ASSERT_THAT(Write(slot, 1), IsOk());
  drives_[1]->read_error = GetParam();
  int refused = 0;
  for (SlotIndex slot = 0; slot < 10; ++slot) {
    const absl::Status status = Read(slot, 1);
    if (status.ok()) continue;
    EXPECT_THAT(status, IsStatus(Code::kInternal, "drive /drive1"));
    EXPECT_FALSE(IsDriveFault(status)) << "nobody above knows of marks";
    ++refused;
  }
  EXPECT_EQ(refused, 5);
  ASSERT_EQ(fenced().size(), 1u);
  EXPECT_EQ(fenced()[0].directory, "/drive1");
  EXPECT_FALSE(IsDriveFault(fenced()[0].cause));
  drives_[1]->read_error = 0;
  for (SlotIndex slot = 0; slot < 10; ++slot) EXPECT_THAT(Read(slot, 1), IsOk()) << "back again";
}

INSTANTIATE_TEST_SUITE_P(
    All,
    DriveErrnoTest,
    ::testing::Values(ENODEV, ENXIO, ENOLINK, ETIMEDOUT, EREMOTEIO, EBADE, ETIME, ESHUTDOWN),
    [](const auto& test) { return std::string(strerrorname_np(test.param)); });

TEST_F(DriveSetFaultTest, ReadsThatLoseNoPageFenceNobody) {
  Open(2, 20);
  for (SlotIndex slot = 0; slot < 10; ++slot) ASSERT_THAT(Write(slot, 1), IsOk());
  drives_[0]->read_error = drives_[1]->read_error = EBADF;
  for (SlotIndex slot = 0; slot < 10; ++slot) EXPECT_THAT(Read(slot, 1), HasCode(Code::kInternal));
  drives_[0]->read_error = drives_[1]->read_error = 0;
  for (SlotIndex slot = 0; slot < 10; ++slot) {
    const absl::Status status = Read(slot, 2);
    EXPECT_THAT(status, IsStatus(Code::kDataLoss, "generation 2, holds")) << "the drive holds it";
    EXPECT_FALSE(IsWithoutIo(status)) << "nobody above knows of marks";
  }
  EXPECT_TRUE(fenced().empty());
  for (SlotIndex slot = 0; slot < 10; ++slot) EXPECT_THAT(Read(slot, 1), IsOk());
}

TEST_F(DriveSetFaultTest, AWriteThatEndsWellOnADriveThatHasFailedMovesOn) {
  rates_ = testing::kSlowDrives;
  Open(2, 20);
  std::vector<Outcome> outcomes;
  HoldWritesOfAFailingDrive(&outcomes);
  gates_[0]->Open();
  for (const SlotIndex slot : {0, 2, 4, 6}) EXPECT_THAT(outcomes[slot].Get(), IsOk());
  ASSERT_EQ(fenced().size(), 1u);
  EXPECT_EQ(writes(0), 1u) << "the first drive took the last page";
  EXPECT_EQ(writes(1), 8u);
  drives_[0]->read_error = EIO;
  for (SlotIndex slot = 0; slot < 8; ++slot) EXPECT_THAT(Read(slot, 1), IsOk()) << slot;
}

TEST_F(DriveSetFaultTest, AWriteThatEndsWellOnADriveThatHasFailedIsNamedWhereNoOtherHasRoom) {
  rates_ = testing::kSlowDrives;
  Open(2, 8);  // the second drive has 4 places and a spare one, so room for one of the four pages
  std::vector<Outcome> outcomes;
  HoldWritesOfAFailingDrive(&outcomes);
  gates_[0]->Open();
  EXPECT_THAT(outcomes[0].Get(), IsOk());
  EXPECT_THAT(outcomes[2].Get(), HasCode(Code::kInternal));
  EXPECT_THAT(outcomes[4].Get(), HasCode(Code::kInternal));
  EXPECT_THAT(outcomes[6].Get(), IsOk());
  ASSERT_EQ(fenced().size(), 1u);
  EXPECT_EQ(fenced()[0].slots, std::vector<SlotIndex>{6});
  for (const SlotIndex slot : {0, 1, 3, 5, 6, 7}) EXPECT_THAT(Read(slot, 1), IsOk()) << slot;
}

TEST_F(DriveSetFaultTest, AWriteThatMovesOnGivesItsPlaceBack) {
  rates_ = testing::kSlowDrives;
  Open(2, 20);
  std::vector<Outcome> outcomes;
  HoldWritesOfAFailingDrive(&outcomes);
  gates_[0]->Open();
  for (const SlotIndex slot : {0, 2, 4, 6}) EXPECT_THAT(outcomes[slot].Get(), IsOk());
  EXPECT_EQ(writes(0), 1u) << "it took the page of slot 6, which went on";
  EXPECT_THAT(drive(0).FindPart(6), HasCode(Code::kNotFound));
  EXPECT_THAT(drive(1).FindPart(6), IsOk());
}

TEST_F(DriveSetFaultTest, ADriveAloneIsNeverFenced) {
  Open(1, 8);
  ASSERT_THAT(Write(7, 1), IsOk());
  drives_[0]->write_error = EIO;
  for (SlotIndex slot = 0; slot < 7; ++slot) {
    const absl::Status status = Write(slot, 1);
    EXPECT_THAT(status, IsStatus(Code::kInternal, "write failed after 1 attempt: EIO"));
    EXPECT_EQ(status.message().find("drive"), absl::string_view::npos)
        << "a single drive is not named";
  }
  drives_[0]->write_error = 0;
  for (SlotIndex slot = 0; slot < 7; ++slot) EXPECT_THAT(Write(slot, 1), IsOk());
  EXPECT_THAT(Read(7, 1), IsOk());
  EXPECT_TRUE(fenced().empty());
}

TEST_F(DriveSetFaultTest, ErrorsOfADriveAloneHaveNoMarks) {
  Open(1, 8);
  ASSERT_THAT(Write(0, 1), IsOk());
  const absl::Status other_page = Read(0, 2);
  EXPECT_THAT(other_page, IsStatus(Code::kDataLoss, "generation 2, holds"));
  EXPECT_FALSE(IsWithoutIo(other_page));
  drives_[0]->read_error = ENODEV;
  const absl::Status gone = Read(0, 1);
  EXPECT_THAT(gone, IsStatus(Code::kInternal, "ENODEV"));
  EXPECT_FALSE(IsDriveFault(gone));
  drives_[0]->read_error = EIO;
  const absl::Status lost = Read(0, 1);
  EXPECT_THAT(lost, IsStatus(Code::kDataLoss, "EIO"));
  EXPECT_FALSE(IsMediumFault(lost));
}

TEST_F(DriveSetFaultTest, TheLastDriveOfSeveralIsNeverFenced) {
  Open(2, 20);
  drives_[0]->write_error = drives_[1]->write_error = EIO;
  for (SlotIndex slot = 0; slot < 8; ++slot) EXPECT_FALSE(Write(slot, 1).ok());
  EXPECT_EQ(fenced().size(), 1u);
  drives_[0]->write_error = drives_[1]->write_error = 0;
  ASSERT_THAT(Write(0, 2), IsOk());
  EXPECT_THAT(Read(0, 2), IsOk());
}

TEST_F(DriveSetFaultTest, AMomentWithoutMemoryFencesNobody) {
  Open(2, 20);
  drives_[0]->write_error = drives_[1]->write_error = EAGAIN;
  for (SlotIndex slot = 0; slot < 4; ++slot) {
    EXPECT_THAT(Write(slot, 1), HasCode(Code::kUnavailable));
  }
  EXPECT_TRUE(fenced().empty());
}

TEST_F(DriveSetFaultTest, DestructionWaitsForWritesThatMoveOn) {
  for (int round = 0; round < 20; ++round) {
    Open(2, 16);
    drives_[0]->write_error = EIO;
    std::atomic<int> done = 0;
    std::vector<std::unique_ptr<PageBuffer>> pages;
    for (SlotIndex slot = 0; slot < 8; ++slot) {
      pages.push_back(std::make_unique<PageBuffer>(kPage));
      store_->Write(slot, {1, slot, 1}, pages.back()->span(), [&](absl::Status status) {
        EXPECT_THAT(status, IsOk());
        ++done;
      });
    }
    store_.reset();
    EXPECT_EQ(done, 8);
  }
}

/// Calls in any order, with errors that come and go. An acknowledged page whose drive is not fenced
/// is read back as it was written.
TEST_F(DriveSetFaultTest, RandomCallsAgreeWithAShadow) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    constexpr SlotIndex kSlots = 24;
    Open(3, kSlots);
    std::map<SlotIndex, std::uint64_t> shadow;
    for (std::uint64_t step = 1; step <= 400; ++step) {
      const auto slot = static_cast<SlotIndex>(random() % kSlots);
      FakeDrive& drive = *drives_[random() % 3];
      if (random() % 10 == 0) drive.write_error = random() % 2 == 0 ? ENOSPC : 0;
      switch (random() % 4) {
        case 0:
          store_->Forget(slot);
          shadow.erase(slot);
          break;
        case 1:
          shadow.erase(slot);
          if (Write(slot, step).ok()) shadow[slot] = step;
          break;
        default:
          EXPECT_EQ(Read(slot, shadow.contains(slot) ? shadow[slot] : 0).ok(),
                    shadow.contains(slot));
      }
    }
  }
}

}  // namespace
}  // namespace sluice::io
