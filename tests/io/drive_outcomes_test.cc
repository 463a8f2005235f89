#include "io/drive_outcomes.h"

#include "gtest/gtest.h"
#include "io/medium_fault.h"
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
  EXPECT_FALSE(outcomes.NoteRead(absl::DataLossError("EIO")));
  EXPECT_FALSE(outcomes.NoteWrite(absl::OkStatus()));  // it still takes pages
  EXPECT_FALSE(outcomes.NoteRead(absl::DataLossError("EIO")));
  EXPECT_TRUE(outcomes.NoteRead(absl::DataLossError("the last")));
  EXPECT_THAT(outcomes.CauseOf(absl::DataLossError("the last")),
              testing::IsStatus(absl::StatusCode::kDataLoss, "3 errors in a row, the last: the"));
  EXPECT_FALSE(outcomes.NoteRead(absl::DataLossError("EIO"))) << "it is fenced already";
  EXPECT_FALSE(outcomes.NoteRead(absl::OkStatus()));
  EXPECT_TRUE(outcomes.fenced());
}

TEST(DriveOutcomesTest, TheLastDriveIsNotFenced) {
  DriveOutcomes outcomes(1);
  EXPECT_FALSE(outcomes.NoteWrite(absl::InternalError("EIO"), /*may_fence=*/false));
  EXPECT_FALSE(outcomes.fenced());
  EXPECT_TRUE(outcomes.NoteWrite(absl::InternalError("EIO"), /*may_fence=*/true));
}

TEST(DriveOutcomesTest, OfReadsOnlyThoseThatLoseAPageCount) {
  DriveOutcomes outcomes(1);
  EXPECT_FALSE(outcomes.NoteRead(absl::InternalError("EBADF")));
  EXPECT_FALSE(outcomes.NoteRead(absl::UnavailableError("EAGAIN")));
  EXPECT_FALSE(outcomes.NoteRead(MarkWithoutIo(absl::DataLossError("holds another"))));
  EXPECT_FALSE(outcomes.fenced());
  EXPECT_TRUE(outcomes.NoteRead(MarkMediumFault(absl::DataLossError("EIO"))));
}

TEST(DriveOutcomesTest, ReadsOfADriveThatIsGoneCount) {
  DriveOutcomes outcomes(2);
  EXPECT_FALSE(outcomes.NoteRead(MarkDriveFault(absl::InternalError("ENODEV"))));
  EXPECT_TRUE(outcomes.NoteRead(MarkDriveFault(absl::InternalError("ENODEV"))));
}

TEST(DriveOutcomesTest, WhatSaysNothingAboutTheDriveDoesNotFence) {
  DriveOutcomes outcomes(1);
  EXPECT_FALSE(outcomes.NoteWrite(absl::ResourceExhaustedError("ENOSPC")));
  EXPECT_FALSE(outcomes.NoteWrite(absl::InvalidArgumentError("a page has")));
  EXPECT_FALSE(outcomes.NoteWrite(absl::UnavailableError("EAGAIN")));
  EXPECT_FALSE(outcomes.NoteRead(absl::NotFoundError("nothing")));
  EXPECT_TRUE(OthersMayTake(absl::UnavailableError("EAGAIN")));
  EXPECT_TRUE(OthersMayTake(absl::ResourceExhaustedError("ENOSPC")));
  EXPECT_FALSE(OthersMayTake(absl::InvalidArgumentError("a page has")));
  EXPECT_FALSE(OthersMayTake(absl::OkStatus()));
}

}  // namespace
}  // namespace sluice::io
