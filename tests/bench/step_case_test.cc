#include "bench/step/step_case.h"

#include <algorithm>

#include "bench/step/step_run.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice::bench {
namespace {

using ::testing::ElementsAre;

constexpr std::uint64_t kUsualCount = std::uint64_t{1} << 28;
constexpr double kUsualCountD = kUsualCount;
constexpr double kGiB = 1 << 30;

StepCase Find(const std::string& name) {
  for (const StepCase& which : StepCases()) {
    if (CaseName(which, kUsualCount) == name) return which;
  }
  ADD_FAILURE() << "no case " << name;
  return {};
}

TEST(StepCaseTest, NamesAreThoseOfTheDocuments) {
  std::vector<std::string> names;
  for (const StepCase& which : StepCases()) names.push_back(CaseName(which, kUsualCount));
  EXPECT_THAT(names,
              ElementsAre("adamw/fp32/fp32/512MiB",
                          "adamw/fp32/fp32/256MiB",
                          "adamw/fp32/fp32/1600MiB",
                          "adamw/fp32/fp32/25%",
                          "adamw/fp32/fp32/50%",
                          "adamw/fp32/fp32/75%",
                          "adamw/fp32/bf16/512MiB",
                          "adamw/fp32/8bit/512MiB",
                          "adamw/bf16/bf16/512MiB",
                          "adamw/bf16/8bit/512MiB"));
}

TEST(StepCaseTest, FewerParametersHaveASmallerBudget) {
  const StepCase which = Find("adamw/fp32/fp32/1600MiB");
  EXPECT_EQ(CaseName(which, kUsualCount / 4), "adamw/fp32/fp32/400MiB");
  EXPECT_EQ(BudgetBytes(which, kUsualCount / 4), std::uint64_t{400} << 20);
}

TEST(StepCaseTest, OnlyJudgedCasesHaveALimit) {
  EXPECT_EQ(Find("adamw/fp32/fp32/512MiB").limit, 1.10);
  EXPECT_EQ(Find("adamw/fp32/fp32/256MiB").limit, 0);
  EXPECT_EQ(Find("adamw/fp32/fp32/50%").limit, 1.15);
  EXPECT_EQ(Find("adamw/fp32/8bit/512MiB").limit, 0.55);
  EXPECT_EQ(Find("adamw/bf16/8bit/512MiB").limit, 0.40);
}

TEST(StepCaseTest, BytesThatMustMoveAreThoseThatDoNotFit) {
  EXPECT_EQ(DiskBytes(Find("adamw/fp32/fp32/512MiB"), kUsualCount), 5 * kGiB);
  EXPECT_EQ(DiskBytes(Find("adamw/fp32/fp32/75%"), kUsualCount), 1.5 * kGiB);
  EXPECT_EQ(DiskBytes(Find("adamw/bf16/bf16/512MiB"), kUsualCount), 2 * kGiB);
  EXPECT_EQ(DiskBytes({.budget_bytes_per_parameter = 13}, kUsualCount), 0);
  // 28 + 24 (1 - b) bytes of memory.
  EXPECT_EQ(MemoryBytes(Find("adamw/fp32/fp32/25%"), kUsualCount), 46 * kUsualCountD);
}

TEST(StepCaseTest, TheFloorIsTheSlowerOfDiskAndMemory) {
  const StepCase share = Find("adamw/fp32/fp32/50%");
  EXPECT_DOUBLE_EQ(FloorSeconds(share, kUsualCount, kGiB, 1e15), 3);
  EXPECT_DOUBLE_EQ(FloorSeconds(share, kUsualCount, 1e15, 40 * kUsualCountD), 1);
  const StepCase disk = Find("adamw/fp32/fp32/512MiB");
  EXPECT_DOUBLE_EQ(FloorSeconds(disk, kUsualCount, 2.5 * kGiB, 0), 2);
}

TEST(StepCaseTest, TheFp32StepHasTheSameBudget) {
  const StepCase own = OwnFp32(Find("adamw/bf16/8bit/512MiB"));
  EXPECT_EQ(CaseName(own, kUsualCount), "adamw/fp32/fp32/512MiB");
}

}  // namespace
}  // namespace sluice::bench
