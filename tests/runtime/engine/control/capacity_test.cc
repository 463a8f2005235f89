// Capacity is a sum: nvme first, the rest in dram for good; and dram alone will do.
#include <gtest/gtest.h>

#include <vector>

#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/status_matchers.h"

namespace sluice {
namespace {

using testing::ByteTensor;
using testing::IsOk;
using testing::IsStatus;
using testing::Pattern;
using testing::RuntimeFixture;

constexpr auto kExhausted = absl::StatusCode::kResourceExhausted;

/// 28 pages of dram hold tensors, 4 are for transit; the spill directory does not exist.
class WithoutNvmeTest : public ::testing::Test {
 protected:
  WithoutNvmeTest() {
    runtime_.options.nvme_bytes = Bytes();
    runtime_.options.io.directory = "/nonexistent/spill";
    runtime_.Start();
  }
  RuntimeFixture runtime_;
};

TEST_F(WithoutNvmeTest, EveryFrameOfDramHoldsATensorAndIsLeasedThere) {
  const TensorId tensor = runtime_.Make("t", 28 * kPage);
  for (const TierId tier : {kDram0, kHbm0, kDram0}) {
    const auto pattern = Pattern(tier == kHbm0 ? 1 : 2, 28 * kPage);
    runtime_.Write(tensor, pattern, 0, tier);
    EXPECT_EQ(runtime_.Read(tensor, kDram0), pattern);
    EXPECT_EQ(runtime_.Read(tensor, kHbm0), pattern);
  }
  EXPECT_THAT(runtime_.Acquire({.tensor = tensor, .tier = kDram0, .contiguous = false}), IsOk());
  const Stats stats = runtime_->GetStats();
  EXPECT_EQ(stats.tiers.at("dram").committed_bytes, 28 * kPage);
  EXPECT_EQ(stats.tiers.count("nvme"), 0u);
  EXPECT_EQ(stats.links.count("dram-nvme"), 0u);
  EXPECT_EQ(stats.io.engine, "");
}

TEST_F(WithoutNvmeTest, NvmeIsNoTier) {
  const TensorId tensor = runtime_.Make("t", kPage);
  EXPECT_THAT(runtime_.Acquire({.tensor = tensor, .tier = kNvme0}),
              IsStatus(absl::StatusCode::kInvalidArgument,
                       "nvme0 does not exist; this runtime leases in hbm0, dram0"));
}

TEST_F(WithoutNvmeTest, ATensorTooManyIsRefusedAndLeavesNothing) {
  const TensorId first = runtime_.Make("first", 20 * kPage);
  const auto pattern = Pattern(5, 20 * kPage);
  runtime_.Write(first, pattern);
  EXPECT_THAT(
      runtime_->CreateTensor(ByteTensor("second", 9 * kPage)),
      IsStatus(kExhausted,
               "tensor 'second' needs 36 KiB, and 32 KiB are left: 0 B in nvme0 and 32 KiB in "
               "dram0; raise tiers.nvme.bytes or tiers.dram.bytes"));
  const TensorId third = runtime_.Make("third", 8 * kPage);
  EXPECT_EQ(runtime_.Read(first), pattern);
  ASSERT_THAT(runtime_->Free(third), IsOk());
  ASSERT_THAT(runtime_->Free(first), IsOk());
  runtime_.Make("all", 28 * kPage);
}

TEST_F(WithoutNvmeTest, ReserveAndSetBudgetNameTheSums) {
  const TensorId tensor = runtime_.Make("t", 20 * kPage);
  EXPECT_THAT(runtime_->Reserve(kDram0, Bytes(9 * kPage)),
              IsStatus(kExhausted,
                       "36 KiB cannot be reserved in dram0: of 128 KiB of dram0, tensors that stay "
                       "there hold 80 KiB, reservations 0 B, pages in transit 16 KiB"));
  EXPECT_THAT(runtime_->Reserve(kDram0, Bytes(8 * kPage)), IsOk());
  EXPECT_THAT(runtime_->SetBudget(kDram0, Bytes(23 * kPage)),
              IsStatus(kExhausted, "the budget of dram0 cannot be 92 KiB, as 96 KiB are needed"));
  const auto pattern = Pattern(6, 20 * kPage);
  runtime_.Write(tensor, pattern);
  EXPECT_THAT(runtime_->SetBudget(kDram0, Bytes(24 * kPage)), IsOk());
  EXPECT_EQ(runtime_.Read(tensor), pattern);
  EXPECT_THAT(runtime_->SetBudget(kDram0, Bytes(32 * kPage)), IsOk());
}

/// The case that once was refused: 3 MiB of nvme and 32 MiB of dram for a tensor of 4 MiB. With hbm
/// dram is between two tiers, without it is the fastest.
TEST(MixedCapacityTest, NvmeNeedNotHoldWhatDramHolds) {
  for (const Bytes hbm : {1_MiB, 0_MiB}) {
    RuntimeFixture runtime;
    runtime.options.page_bytes = 64_KiB;
    runtime.options.hbm_bytes = hbm;
    runtime.options.dram_bytes = 32_MiB;
    runtime.options.nvme_bytes = 3_MiB;
    runtime.Start();
    const TensorId tensor = runtime.Make("t", (4_MiB).count());
    const auto pattern = Pattern(7, (4_MiB).count());
    runtime.Write(tensor, pattern);
    const TensorId other = runtime.Make("other", (20_MiB).count());
    const auto others = Pattern(8, (20_MiB).count());
    runtime.Write(other, others);
    EXPECT_EQ(runtime.Read(tensor), pattern);
    EXPECT_EQ(runtime.Read(other), others);
    EXPECT_EQ(runtime.Read(tensor, hbm > Bytes() ? kHbm0 : kDram0), pattern);
    const Stats stats = runtime->GetStats();
    EXPECT_EQ(stats.tiers.at("nvme").committed_bytes + stats.tiers.at("dram").committed_bytes,
              (24_MiB).count());
    EXPECT_GT(stats.tiers.at("nvme").committed_bytes, 0u);
  }
}

/// A tensor with nearly all pages of both tiers. The page used last has to leave for the next.
TEST(MixedCapacityTest, AFullSumPagesInEveryTier) {
  RuntimeFixture runtime;  // 4 of 32 pages are for transit and 4 for what may go down
  runtime.options.nvme_bytes = Bytes(40 * kPage);  // 16 are for writes in flight
  runtime.Start();
  const TensorId tensor = runtime.Make("t", (24 + 24) * kPage);
  EXPECT_THAT(runtime->CreateTensor(ByteTensor("more", 1)),
              IsStatus(kExhausted, "needs 4 KiB, and 0 B are left: 0 B in nvme0 and 0 B in dram0"));
  for (std::uint64_t pass = 0; pass < 4; ++pass) {
    const auto pattern = Pattern(pass, 48 * kPage);
    runtime.Write(tensor, pattern, 0, pass % 2 == 0 ? kDram0 : kHbm0);
    EXPECT_EQ(runtime.Read(tensor, kDram0), pattern);
    EXPECT_EQ(runtime.Read(tensor, kHbm0), pattern);
  }
}

}  // namespace
}  // namespace sluice
