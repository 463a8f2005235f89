#include "workloads/gpt/training/footprint.h"

#include <gtest/gtest.h>

namespace sluice::gpt {
namespace {

constexpr Bytes kFootprintPage = 256_KiB;

TEST(Footprint, DefaultConfigKeepsTheLimitsOfTheMainJob) {
  const absl::StatusOr<Footprint> footprint = MeasureFootprint({}, {}, kFootprintPage);
  ASSERT_TRUE(footprint.ok()) << footprint.status();
  EXPECT_LE(footprint->op_hbm_max + footprint->op_dram_max, 24_MiB);
  // 3.2 times the budgets of 64 and 128 MiB.
  EXPECT_GE(footprint->live_max.count(), (64_MiB + 128_MiB).count() * 32 / 10);
  EXPECT_LE(footprint->padding.count(), footprint->live_max.count() / 20);
  EXPECT_GT(footprint->ops_per_step, 0);
  const absl::StatusOr<Footprint> twice =
      MeasureFootprint({}, {.micro_batches = 2}, kFootprintPage);
  ASSERT_TRUE(twice.ok()) << twice.status();
  EXPECT_GT(footprint->page_accesses_per_step, footprint->tensors.count() / kFootprintPage.count());
  EXPECT_GT(twice->page_accesses_per_step, footprint->page_accesses_per_step * 3 / 2);
}

TEST(Footprint, LargeConfigKeepsOpsModest) {
  const ModelConfig model{.layers = 17, .heads = 12, .width = 768};
  const absl::StatusOr<Footprint> footprint = MeasureFootprint(model, {}, kFootprintPage);
  ASSERT_TRUE(footprint.ok()) << footprint.status();
  EXPECT_NEAR(double(ParameterCount(model)), 120e6, 2e6);
  EXPECT_LE(footprint->op_hbm_max + footprint->op_dram_max, 64_MiB);
  EXPECT_LE(footprint->padding.count(), footprint->live_max.count() / 20);
}

TEST(Footprint, DefaultConfigHasAbout14MillionParameters) {
  EXPECT_NEAR(double(ParameterCount({})), 14.3e6, 0.2e6);
}

TEST(Footprint, CountsBytesByHand) {
  const ModelConfig model{.layers = 1, .heads = 1, .width = 8, .context = 4, .vocab = 16};
  const TrainConfig train{.batch = 2, .group_sequences = 1};
  const absl::StatusOr<Footprint> footprint = MeasureFootprint(model, train, 4_KiB);
  ASSERT_TRUE(footprint.ok()) << footprint.status();
  // Live bytes after the forward:
  // - parameters and moments
  // - for each group, 17 widths of activations for each of 4 tokens, and 16 probabilities.
  // The widths are input, ln1, 3 of qkv, attention, middle, ln2, 4 of fc, 4 of gelu, and output.
  // The first backward op of the last group adds the gradient streams of both groups. It also adds
  // 4 widths of d_fc, in place of that group's output. The gradients written so far count, too:
  // tokens, the final norm, and those of the op itself.
  const std::uint64_t parameters = static_cast<std::uint64_t>(ParameterCount(model));
  const std::uint64_t stash = 2 * (4 * 16 * 8 + 16);
  const std::uint64_t head = 4 * 8 + 4 * 16 + 4 * 8;  // final_ln, logits, d_ln
  const std::uint64_t at_head =
      3 * parameters + stash + 2 * 4 * 8 + head + (16 * 8 + 2 * 8) + 4 * 8;
  EXPECT_GE(footprint->live_max.count(), at_head * 4);
  EXPECT_EQ(footprint->ops_per_step, 2 * (1 + 3) + 2 + 2 * 4 + 2 + 6 + 1);
}

}  // namespace
}  // namespace sluice::gpt
