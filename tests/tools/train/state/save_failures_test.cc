#include "tools/train/state/save_failures.h"

#include <string>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

absl::Status Full(int step, int stands) {
  return absl::ResourceExhaustedError(
      fmt::format("--state /s: the save after step {} failed: write: No space left on device; that "
                  "of step {} stands",
                  step,
                  stands));
}

TEST(SaveFailuresTest, TellsACauseOnceUntilASaveSucceeds) {
  SaveFailures failures(5);
  EXPECT_THAT(failures.Note(Full(6, 5), 5), ElementsAre(Full(6, 5).message()));
  for (int step = 7; step <= 9; ++step) EXPECT_THAT(failures.Note(Full(step, 5), 5), IsEmpty());
  EXPECT_THAT(failures.Note(absl::OkStatus(), 5), IsEmpty()) << "no save was due";
  EXPECT_THAT(
      failures.Note(absl::OkStatus(), 10),
      ElementsAre(
          "saves on the way: No space left on device; that of step 5 stands, and 3 like it"));
  EXPECT_THAT(failures.Note(Full(11, 10), 10), ElementsAre(Full(11, 10).message()));
  EXPECT_THAT(failures.Take(), IsEmpty()) << "the failure was told already";
}

TEST(SaveFailuresTest, TellsAnotherCause) {
  SaveFailures failures(0);
  EXPECT_THAT(failures.Note(Full(1, 0), 0).size(), 1);
  const absl::Status other = absl::InternalError("the save after step 2 failed: fsync: EIO");
  EXPECT_THAT(failures.Note(other, 0), ElementsAre(other.message()));
  EXPECT_THAT(failures.Note(Full(3, 0), 0), IsEmpty());
  EXPECT_THAT(failures.Take().size(), 1);
}

}  // namespace
}  // namespace sluice::tools
