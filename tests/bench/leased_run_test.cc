#include "bench/device/leased_run.h"

#include <string>

#include "gtest/gtest.h"
#include "tests/support/temp_directory.h"

namespace sluice::bench {
namespace {

constexpr std::uint64_t kMebi = std::uint64_t{1} << 20;
constexpr std::uint64_t kWeights = 32 * kMebi;

/// All weights fit into dram, and an eighth of them into hbm.
RuntimeOptions SmallOptions() {
  RuntimeOptions options;
  options.page_bytes = Bytes(kMebi / 4);
  options.hbm_bytes = Bytes(8 * kMebi);
  options.dram_bytes = Bytes(kWeights + 8 * kMebi);
  return options;
}

TEST(LeasedRunTest, BytesOfPassesAreThoseOfTheLinkToDram) {
  auto run = LeasedRun::Create(SmallOptions(), kWeights, kMebi);
  ASSERT_TRUE(run.ok()) << run.status();
  for (const AccessMode mode :
       {AccessMode::kRead, AccessMode::kOverwrite, AccessMode::kReadWrite}) {
    const absl::StatusOr<Moved> moved = (*run)->Pass(mode, /*in_order=*/true);
    ASSERT_TRUE(moved.ok()) << moved.status();
    EXPECT_GE(moved->bytes, kWeights - 8 * kMebi);
    EXPECT_DOUBLE_EQ(moved->rate(), static_cast<double>(moved->bytes) / moved->seconds);
  }
}

TEST(LeasedRunTest, WithNvmeTheBytesAreThoseOfTheLinkToNvme) {
  const testing::TempDirectory spill;
  RuntimeOptions options = SmallOptions();
  options.io.directory = spill.path();
  options.nvme_bytes = Bytes(2 * kWeights);
  auto all_in_dram = LeasedRun::Create(options, kWeights, kMebi);
  ASSERT_TRUE(all_in_dram.ok()) << all_in_dram.status();
  const absl::StatusOr<Moved> none = (*all_in_dram)->Pass(AccessMode::kRead, /*in_order=*/true);
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(none->bytes, 0U) << "pages moved between dram and hbm alone";

  options.dram_bytes = Bytes(kWeights / 2);
  auto half_in_dram = LeasedRun::Create(options, kWeights, kMebi);
  ASSERT_TRUE(half_in_dram.ok()) << half_in_dram.status();
  const absl::StatusOr<Moved> planned = (*half_in_dram)->PlannedPass();
  ASSERT_TRUE(planned.ok()) << planned.status();
  EXPECT_GE(planned->bytes, kWeights / 4);
}

}  // namespace
}  // namespace sluice::bench
