#include <cstdint>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/limited_cgroup.h"
#include "tests/support/project_paths.h"
#include "tests/support/sanitizers.h"
#include "tests/tools/command.h"

namespace sluice::tools {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

constexpr char kNoCgroup[] = "no memory cgroup can be made here (needs root)";

/// A run of train in the cgroup that makes two steps.
Command StartTrain(const std::string& config,
                   const testing::LimitedCgroup& cgroup,
                   const std::string& spill,
                   std::vector<std::string> words) {
  std::vector<std::string> all = {"train",
                                  "--config",
                                  testing::ProjectFile(config),
                                  "--json",
                                  "--set",
                                  "train.steps=2",
                                  "--set",
                                  "tiers.nvme.directory=" + spill};
  all.insert(all.end(), words.begin(), words.end());
  return Command(all, {.cgroup_processes = cgroup.processes()});
}

std::vector<std::string> Budgets(std::uint64_t hbm, std::uint64_t dram) {
  return {"--set",
          "tiers.hbm.bytes=" + std::to_string(hbm),
          "--set",
          "tiers.dram.bytes=" + std::to_string(dram)};
}

/// Budgets of hbm and dram together that doctor proposes in the cgroup.
std::uint64_t ProposedBudgets(const testing::LimitedCgroup& cgroup,
                              std::vector<std::string> words) {
  words.insert(words.begin(), {"doctor", "--json"});
  Command doctor(words, {.cgroup_processes = cgroup.processes()});
  EXPECT_EQ(doctor.Wait(), 0) << doctor.errors();
  std::istringstream lines(doctor.output());
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json["section"] == "choices") return json["budget_bytes_max"];
  }
  return 0;
}

TEST(TrainMemoryTest, TheMainJobRunsWithinItsBudgetsAnd160MiB) {
  SLUICE_SKIP_UNDER_SANITIZERS();
  constexpr std::uint64_t kLimit = (64 + 128 + 160) * kMiB;
  const testing::LimitedCgroup cgroup(kLimit);
  if (!cgroup.limited()) GTEST_SKIP() << kNoCgroup;
  const TemporaryDirectory spill;
  Command command({"train",
                   "--config",
                   testing::ProjectFile("configs/train-gpt.toml"),
                   "--json",
                   "--set",
                   "train.steps=2",
                   "--set",
                   "train.val_batches=1",
                   "--set",
                   "tiers.nvme.directory=" + spill.path()},
                  {.cgroup_processes = cgroup.processes()});
  ASSERT_EQ(command.Wait(), 0) << command.errors() << cgroup.Describe();
  const auto json = nlohmann::json::parse(command.output());
  EXPECT_LE(json["peak_rss_bytes"], kLimit);
  EXPECT_GE(json["live_bytes"].get<double>(), 3.2 * 192 * kMiB);
  EXPECT_LE(json["padding_bytes"].get<double>(), 0.05 * json["live_bytes"].get<double>());
}

TEST(TrainMemoryTest, TheMainJobRunsWithHalfOfItsBudgets) {
  const TemporaryDirectory spill;
  Command command({"train",
                   "--config",
                   testing::ProjectFile("configs/train-gpt.toml"),
                   "--json",
                   "--set",
                   "train.steps=2",
                   "--set",
                   "train.batch=2",
                   "--set",
                   "train.val_batches=1",
                   "--set",
                   "tiers.hbm.bytes=32MiB",
                   "--set",
                   "tiers.dram.bytes=64MiB",
                   "--set",
                   "tiers.nvme.directory=" + spill.path()});
  ASSERT_EQ(command.Wait(), 0) << command.errors();
  const auto json = nlohmann::json::parse(command.output());
  EXPECT_LE(json["tiers"]["hbm"]["peak_bytes"], 32 * kMiB);
  EXPECT_LE(json["tiers"]["dram"]["peak_bytes"], 64 * kMiB);
}

TEST(TrainMemoryTest, ASumBeyondTheCgroupIsRefusedAtOnce) {
  SLUICE_SKIP_UNDER_SANITIZERS();
  const testing::LimitedCgroup cgroup(128 * kMiB);
  if (!cgroup.limited()) GTEST_SKIP() << kNoCgroup;
  const TemporaryDirectory spill;
  Command command =
      StartTrain("configs/train-gpt-tiny.toml", cgroup, spill.path(), Budgets(kMiB, 110 * kMiB));
  EXPECT_EQ(command.Wait(), 2) << command.errors();
  EXPECT_THAT(command.errors(),
              AllOf(HasSubstr("the run takes "),
                    HasSubstr("110 MiB for frames of dram"),
                    HasSubstr("the program and its libraries"),
                    HasSubstr(fs::path(cgroup.processes()).parent_path().string() + "/memory."),
                    HasSubstr("lower tiers.dram.bytes or tiers.hbm.bytes")));
  EXPECT_EQ(command.output(), "") << "before any work";

  std::vector<std::string> large = Budgets(kMiB, kMiB);
  large.insert(large.end(), {"--set", "tiers.nvme.bytes=1TiB"});
  Command slots = StartTrain("configs/train-gpt-tiny.toml", cgroup, spill.path(), large);
  EXPECT_EQ(slots.Wait(), 2) << slots.errors();
  EXPECT_THAT(slots.errors(), HasSubstr("lower tiers.nvme.bytes or use larger pages"));
}

TEST(SlowTrainMemoryTest, SmallBudgetsRunInASmallCgroup) {
  const TemporaryDirectory spill;
  for (const std::uint64_t limit : {128 * kMiB, 64 * kMiB}) {
    const testing::LimitedCgroup cgroup(limit);
    if (!cgroup.limited()) GTEST_SKIP() << kNoCgroup;
    Command command =
        StartTrain("configs/train-gpt-tiny.toml", cgroup, spill.path(), Budgets(kMiB, kMiB));
    EXPECT_EQ(command.Wait(), 0) << limit << command.errors() << cgroup.Describe();
  }
}

TEST(SlowTrainMemoryTest, AVerifiedRunFitsIntoTheSameCgroup) {
  const testing::LimitedCgroup cgroup(128 * kMiB);
  if (!cgroup.limited()) GTEST_SKIP() << kNoCgroup;
  const TemporaryDirectory spill;
  std::vector<std::string> words = Budgets(kMiB, kMiB);
  words.push_back("--verify");
  Command command = StartTrain("configs/train-gpt-tiny.toml", cgroup, spill.path(), words);
  EXPECT_EQ(command.Wait(), 0) << command.errors() << cgroup.Describe();
}

TEST(SlowTrainMemoryTest, MeasuringTheLinksFitsIntoASmallCgroup) {
  const testing::LimitedCgroup cgroup(64 * kMiB);
  if (!cgroup.limited()) GTEST_SKIP() << kNoCgroup;
  const TemporaryDirectory spill;
  Command command({"doctor", "--measure", "--directory", spill.path()},
                  {.cgroup_processes = cgroup.processes()});
  EXPECT_EQ(command.Wait(), 0) << command.errors();
}

TEST(SlowTrainMemoryTest, BudgetsThatDoctorProposesTrainAndMoreIsRefused) {
  constexpr std::uint64_t kLimit = 512 * kMiB;
  constexpr std::uint64_t kHbm = 128 * kMiB;
  const testing::LimitedCgroup cgroup(kLimit);
  if (!cgroup.limited()) GTEST_SKIP() << kNoCgroup;
  const TemporaryDirectory spill;
  for (const char* config : {"configs/train-gpt-tiny.toml", "configs/train-gpt.toml"}) {
    SCOPED_TRACE(config);
    for (const bool named : {false, true}) {
      std::vector<std::string> words;
      if (named) words = {"--config", testing::ProjectFile(config)};
      const std::uint64_t both = ProposedBudgets(cgroup, words);
      SCOPED_TRACE(both);
      ASSERT_GT(both, kLimit * 4 / 5);
      Command fits = StartTrain(config, cgroup, spill.path(), Budgets(kHbm, both - kHbm));
      EXPECT_EQ(fits.Wait(), 0) << fits.errors() << cgroup.Describe();
    }
    Command beyond =
        StartTrain(config, cgroup, spill.path(), Budgets(kHbm, kLimit - 18 * kMiB - kHbm));
    EXPECT_EQ(beyond.Wait(), 2) << beyond.errors();
  }
}

}  // namespace
}  // namespace sluice::tools
