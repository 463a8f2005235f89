#include "runtime/engine/report/repeated_failures.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(RepeatedFailuresTest, TellsTheFirstOfEachKindAndCountsTheOthers) {
  RepeatedFailures failures;
  const auto full = [](int page) {
    return absl::ResourceExhaustedError("slot " + std::to_string(page) + ": write failed: ENOSPC");
  };
  EXPECT_TRUE(failures.IsFirst("nvme0", full(1)));
  for (int page = 2; page <= 160; ++page) EXPECT_FALSE(failures.IsFirst("nvme0", full(page)));
  EXPECT_TRUE(failures.IsFirst("dram0", full(1)));
  EXPECT_TRUE(failures.IsFirst("nvme0", absl::DataLossError("slot 1: read failed: EIO")));
  EXPECT_TRUE(failures.IsFirst("nvme0", absl::InternalError("no colon")));
  EXPECT_FALSE(failures.IsFirst("nvme0", absl::InternalError("no colon")));
  EXPECT_THAT(failures.Take(),
              ElementsAre("nvme0: ENOSPC, and 159 like it", "nvme0: no colon, and 1 like it"));
  EXPECT_THAT(failures.Take(), IsEmpty());
  EXPECT_TRUE(failures.IsFirst("nvme0", full(1)));
}

TEST(RepeatedFailuresTest, ChecksumsAndOffsetsMakeNoOtherKind) {
  RepeatedFailures failures;
  const auto differs = [](const std::string& sum) {
    return absl::DataLossError("slot 7: checksum " + sum +
                               " instead of 4627f1fdb8f5f6e4, read twice");
  };
  EXPECT_TRUE(failures.IsFirst("dram0", differs("2d96cdc54268154d")));
  EXPECT_FALSE(failures.IsFirst("dram0", differs("1c")));
  EXPECT_TRUE(failures.IsFirst("dram0", absl::DataLossError("slot 7: it ends at byte 12")));
  EXPECT_FALSE(failures.IsFirst("dram0", absl::DataLossError("slot 9: it ends at byte 4096")));
  EXPECT_THAT(
      failures.Take(),
      ElementsAre("dram0: checksum 2d96cdc54268154d instead of 4627f1fdb8f5f6e4, read twice, and 1 "
                  "like it",
                  "dram0: it ends at byte 12, and 1 like it"));
}

}  // namespace
}  // namespace sluice::engine
