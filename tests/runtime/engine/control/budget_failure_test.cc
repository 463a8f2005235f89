// Budget changes that the system or the core refuses: an error, and all is as it was.
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>

#include "base/strings.h"
#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/support/child_process.h"
#include "tests/support/limited_cgroup.h"
#include "tests/support/sanitizers.h"
#include "tests/support/status_matchers.h"

namespace sluice {
namespace {

using testing::IsOk;
using testing::IsStatus;
using testing::Pattern;
using testing::RuntimeFixture;

/// Budget changes for which the system takes no memory back, then a use of all there is.
std::string ShrinkInVain() {
  constexpr std::uint64_t kBytes = 12u << 20;
  RuntimeFixture runtime;
  runtime.options.page_bytes = 256_KiB;
  runtime.options.hbm_bytes = Bytes();
  runtime.options.dram_bytes = 16_MiB;
  runtime.options.nvme_bytes = 32_MiB;
  runtime.Start();
  std::string failed =
      testing::RefuseSystemCall(SYS_fallocate, EOPNOTSUPP, testing::Refuse::kEveryCall);
  if (!failed.empty()) return failed;
  std::string text;
  for (const Bytes budget : {8_MiB, 12_MiB, 16_MiB}) {
    const absl::Status set = runtime->SetBudget(kDram0, budget);
    text += set.ok() ? "ok, " : std::string(base::ToStd(set.message())) + ", ";
  }
  const TensorId tensor = runtime.Make("t", kBytes);
  const auto lease =
      runtime.Acquire({.tensor = tensor, .mode = AccessMode::kOverwrite, .tier = kDram0});
  return text + (lease.ok() ? "all is there" : lease.status().ToString());
}

TEST(BudgetFailureTest, MemoryThatTheSystemDoesNotTakeBackStaysInUse) {
  EXPECT_EQ(testing::RunInChild(ShrinkInVain),
            "fallocate PUNCH_HOLE of arena dram: EOPNOTSUPP (Operation not supported), "
            "fallocate PUNCH_HOLE of arena dram: EOPNOTSUPP (Operation not supported), "
            "ok, all is there");
}

/// Grows by 60 MiB, as a whole chunk stays, where 16 are left; then by none.
std::string GrowInACgroup(const std::string& processes) {
  RuntimeFixture runtime;
  runtime.options.page_bytes = 2_MiB;
  runtime.options.hbm_bytes = Bytes();
  runtime.options.dram_bytes = 96_MiB;
  runtime.options.nvme_bytes = 32_MiB;
  runtime.Start();
  if (!runtime->SetBudget(kDram0, 32_MiB).ok()) return "does not shrink";
  std::ofstream(processes) << getpid() << std::flush;
  const absl::Status grown = runtime->SetBudget(kDram0, 96_MiB);
  const absl::Status same = runtime->SetBudget(kDram0, 32_MiB);
  return grown.ToString() + "; then " + same.ToString();
}

TEST(BudgetFailureTest, NoMoreMemoryIsTakenThanTheCgroupLeaves) {
  SLUICE_SKIP_UNDER_SANITIZERS();
  const testing::LimitedCgroup cgroup(std::uint64_t{16} << 20);
  if (!cgroup.limited()) GTEST_SKIP() << "no memory cgroup can be made here (needs root)";
  const std::string text =
      testing::RunInChild([&cgroup] { return GrowInACgroup(cgroup.processes()); });
  EXPECT_TRUE(
      text.starts_with("RESOURCE_EXHAUSTED: the larger budget takes 60 MiB of memory (60 "
                       "MiB for frames of dram0), and "))
      << text;
  EXPECT_TRUE(text.ends_with("; then OK")) << text;
}

/// Grows the budget twice, onto small pages. Returns the listener's messages about it.
std::string GrowWithoutHugePages() {
  RuntimeFixture runtime;
  runtime.options.page_bytes = 2_MiB;
  runtime.options.hbm_bytes = Bytes();
  runtime.options.dram_bytes = 32_MiB;
  runtime.options.nvme_bytes = 32_MiB;
  runtime.Start();
  static_cast<void>(runtime->GetStats());  // announcements of the start have been made by now
  if (!runtime.listener.fallbacks().empty()) return "lacks something from the start";
  if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0) return "prctl refused";
  for (const Bytes budget : {8_MiB, 32_MiB, 8_MiB, 32_MiB}) {
    EXPECT_THAT(runtime->SetBudget(kDram0, budget), IsOk());
  }
  static_cast<void>(runtime->GetStats());
  std::string text;
  for (const FallbackEvent& event : runtime.listener.fallbacks()) {
    text += event.what + ": " + event.reason + "; ";
  }
  return text + std::to_string(runtime->Health().reasons.size());
}

TEST(BudgetFailureTest, GrowthOntoSmallPagesIsAnnouncedOnce) {
  const std::string text = testing::RunInChild(GrowWithoutHugePages);
  if (text.starts_with("lacks")) GTEST_SKIP() << text;
  EXPECT_TRUE(text.starts_with("huge_pages: ")) << text;
  EXPECT_NE(text.find("of dram is on 2 MiB pages: MADV_COLLAPSE refused for"), std::string::npos)
      << text;
  EXPECT_TRUE(text.ends_with("; 1")) << text;
}

TEST(BudgetFailureTest, ABudgetBelowTheLeastNamesIt) {
  RuntimeFixture runtime;
  runtime.Start();
  EXPECT_THAT(runtime->SetBudget(kDram0, Bytes(4 * kPage)),
              IsStatus(absl::StatusCode::kInvalidArgument,
                       "the budget of dram0 cannot be 16 KiB; it is at least 20 KiB and at most "
                       "the 128 KiB that the runtime was created with"));
  EXPECT_THAT(
      runtime->SetBudget(kHbm0, Bytes()),
      IsStatus(absl::StatusCode::kInvalidArgument, "at least 4 KiB and at most the 64 KiB"));
  EXPECT_THAT(runtime->SetBudget(kDram0, Bytes(5 * kPage)), IsOk());
}

TEST(BudgetFailureTest, AReservationIsComparedWithTheBudgetOfNow) {
  RuntimeFixture runtime;
  runtime.Start();
  ASSERT_THAT(runtime->SetBudget(kHbm0, Bytes(8 * kPage)), IsOk());
  EXPECT_THAT(runtime->Reserve(kHbm0, Bytes(12 * kPage)),
              IsStatus(absl::StatusCode::kInvalidArgument,
                       "48 KiB cannot be reserved in hbm0, which has 32 KiB"));
}

}  // namespace
}  // namespace sluice
