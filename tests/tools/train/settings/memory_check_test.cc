#include "tools/train/settings/memory_check.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/project_paths.h"
#include "tests/support/status_matchers.h"

namespace sluice::tools {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;

numa::MemoryLimits LimitsOf(Bytes available) {
  numa::MemoryLimits limits;
  limits.available_bytes = available.count();
  limits.max_map_count = 65530;
  return limits;
}

RunNeeds WithBudgets(RunNeeds needs, Bytes dram) {
  needs.runtime.dram_bytes = dram;
  needs.runtime.hbm_bytes = Bytes();
  return needs;
}

RunNeeds NeedsOfPages(Bytes page) {
  RunNeeds needs;
  needs.runtime.page_bytes = page;
  needs.runtime.nvme_bytes = 1_GiB;
  return needs;
}

TEST(MemoryCheckTest, TheLargestBudgetsFitAndLittleMoreDoesNot) {
  for (const Bytes page : {16_KiB, 256_KiB, 2_MiB}) {
    for (const Bytes available : {128_MiB, 512_MiB, 5_GiB}) {
      const RunNeeds needs = NeedsOfPages(page);
      const numa::MemoryLimits limits = LimitsOf(available);
      const Bytes largest = LargestBudgets(needs, limits);
      SCOPED_TRACE(ToString(page) + " of " + ToString(available) + ": " + ToString(largest));
      ASSERT_GT(largest, Bytes());
      const auto sum = MemoryOf(WithBudgets(needs, largest));
      ASSERT_THAT(sum, IsOk());
      EXPECT_THAT(numa::CheckFits(*sum, limits, "it", "less"), IsOk());
      const Bytes mappable = page * engine::MappableFrames(limits.max_map_count);
      if (largest + 1_MiB > mappable) continue;  // mappings bind
      const auto more = MemoryOf(WithBudgets(needs, largest + 8_MiB));
      ASSERT_THAT(more, IsOk());
      EXPECT_FALSE(numa::CheckFits(*more, limits, "it", "less").ok());
    }
  }
}

TEST(MemoryCheckTest, MappingsBoundWhatIsProposed) {
  const Bytes largest = LargestBudgets(NeedsOfPages(16_KiB), LimitsOf(5_GiB));
  EXPECT_LE(largest, 16_KiB * engine::MappableFrames(65530));
  EXPECT_GT(largest, 400_MiB);
}

TEST(MemoryCheckTest, NothingIsProposedIfNothingFits) {
  EXPECT_EQ(LargestBudgets(NeedsOfPages(2_MiB), LimitsOf(16_MiB)), Bytes());
}

TEST(MemoryCheckTest, OtherRunsAreCounted) {
  RunNeeds needs = WithBudgets(NeedsOfPages(256_KiB), 64_MiB);
  needs.tensor_bytes = (100_MiB).count();
  const auto alone = MemoryOf(needs);
  ASSERT_THAT(alone, IsOk());
  needs.runs_in_ram = 1;
  EXPECT_GT(MemoryOf(needs)->bytes(), alone->bytes() + needs.tensor_bytes + needs.text_bytes);
  EXPECT_THAT(numa::CheckFits(*MemoryOf(needs), LimitsOf(100_MiB), "it", "less").message(),
              HasSubstr("for the run in RAM"));
}

TEST(MemoryCheckTest, NeedsAreThoseOfTheModelAndItsTexts) {
  const std::string config = testing::ProjectFile("configs/train-gpt-tiny.toml");
  const std::string text = testing::ProjectFile("LICENSE");
  const auto flags = ReadTrainFlags(
      std::vector<std::string>{"--config", config, "--text", text, "/no/such/file", "--verify"});
  ASSERT_THAT(flags, IsOk());
  const auto needs = FindNeeds(*flags);
  ASSERT_THAT(needs, IsOk());
  EXPECT_GT(needs->text_bytes, 1000u);
  EXPECT_LT(needs->text_bytes, 100'000u) << "only the text that is there counts";
  EXPECT_GT(needs->job.tensor_pages, 100u);
  EXPECT_EQ(needs->tensor_bytes, needs->job.tensor_pages * needs->runtime.page_bytes.count());
  EXPECT_GT(needs->job.page_accesses, needs->job.ops);
  EXPECT_EQ(needs->runs_in_ram, 1);
}

}  // namespace
}  // namespace sluice::tools
