#include "io/drives/drive_outcomes.h"

#include "gtest/gtest.h"
#include "io/store/medium_fault.h"
#include "tests/support/status_matchers.h"

namespace sluice::io {
namespace {

TEST(DriveOutcomesTest, ErrorsWithSuccessesBetweenDoNotFence) {
  DriveOutcomes outcomes(3);
  for (int round = 0; round < 5; ++round) {
    EXPECT_FALSE(outcomes.NoteWrite(absl::InternalError("EIO")));
    EXPECT_FALSE(outcomes.NoteWrite(absl::InternalError("EIO")));
    EXPECT_FALSE(outcomes.NoteWrite(absl::OkStatus()));
  }
  EXPECT_FALSE(outcomes.fenced());
}

TEST(DriveOutcomesTest, ThreeInARowFenceOnce) {
  DriveOutcomes outcomes(3);
  EXPECT_FALSE(outcomes.NoteRead(absl::DataLossError("EIO"), 7));
  EXPECT_FALSE(outcomes.NoteWrite(absl::OkStatus()));  // it still takes pages
  EXPECT_FALSE(outcomes.NoteRead(absl::DataLossError("EIO"), 7));
  EXPECT_TRUE(outcomes.NoteRead(absl::DataLossError("the last"), 7));
  EXPECT_THAT(outcomes.CauseOf(absl::DataLossError("the last")),
              testing::IsStatus(absl::StatusCode::kDataLoss, "3 errors in a row, the last: the"));
  EXPECT_FALSE(outcomes.NoteRead(absl::DataLossError("EIO"), 7)) << "the drive is fenced already";
  EXPECT_FALSE(outcomes.NoteRead(absl::OkStatus(), 7));
  EXPECT_TRUE(outcomes.fenced());
}

TEST(DriveOutcomesTest, TheLastDriveIsNotFenced) {
  DriveOutcomes outcomes(1);
  EXPECT_FALSE(outcomes.NoteWrite(absl::InternalError("EIO"), /*may_fence=*/false));
  EXPECT_FALSE(outcomes.fenced());
  EXPECT_TRUE(outcomes.NoteWrite(absl::InternalError("EIO"), /*may_fence=*/true));
}

TEST(DriveOutcomesTest, OnlyReadsThatLoseAPageCount) {
  DriveOutcomes outcomes(1);
  EXPECT_FALSE(outcomes.NoteRead(absl::InternalError("EBADF"), 7));
  EXPECT_FALSE(outcomes.NoteRead(absl::UnavailableError("EAGAIN"), 7));
  EXPECT_FALSE(outcomes.NoteRead(MarkWithoutIo(absl::DataLossError("holds another")), 7));
  EXPECT_FALSE(outcomes.fenced());
  EXPECT_TRUE(outcomes.NoteRead(MarkMediumFault(absl::DataLossError("EIO")), 7));
}

TEST(DriveOutcomesTest, ReadsOfADriveThatIsGoneCountByThePage) {
  const absl::Status gone = MarkDriveFault(absl::InternalError("EREMOTEIO"));
  DriveOutcomes outcomes(3);
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(outcomes.NoteRead(gone, 7)) << "perhaps this page alone";
  EXPECT_FALSE(outcomes.NoteRead(gone, 8));
  EXPECT_TRUE(outcomes.NoteRead(gone, 7));
}

TEST(DriveOutcomesTest, APageThatIsReadBetweenThemClearsTheDrive) {
  const absl::Status gone = MarkDriveFault(absl::InternalError("ENODEV"));
  DriveOutcomes outcomes(2);
  for (SlotIndex slot = 0; slot < 5; ++slot) {
    EXPECT_FALSE(outcomes.NoteRead(gone, slot));
    EXPECT_FALSE(outcomes.NoteRead(absl::OkStatus(), 9));
  }
}

TEST(DriveOutcomesTest, ErrorsThatAreNotTheDrivesDoNotFence) {
  DriveOutcomes outcomes(1);
  EXPECT_FALSE(outcomes.NoteWrite(absl::ResourceExhaustedError("ENOSPC")));
  EXPECT_FALSE(outcomes.NoteWrite(absl::InvalidArgumentError("a page has")));
  EXPECT_FALSE(outcomes.NoteWrite(absl::UnavailableError("EAGAIN")));
  EXPECT_FALSE(outcomes.NoteRead(absl::NotFoundError("nothing"), 7));
  EXPECT_TRUE(OthersMayTake(absl::UnavailableError("EAGAIN")));
  EXPECT_TRUE(OthersMayTake(absl::ResourceExhaustedError("ENOSPC")));
  EXPECT_FALSE(OthersMayTake(absl::InvalidArgumentError("a page has")));
  EXPECT_FALSE(OthersMayTake(absl::OkStatus()));
}

}  // namespace
}  // namespace sluice::io
