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

}  // namespace
}  // namespace sluice::engine
