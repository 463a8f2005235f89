#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "base/thread.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/project_paths.h"
#include "tests/tools/command.h"

namespace sluice::tools {
namespace {

using Json = nlohmann::json;
using ::testing::IsEmpty;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

int ComputeThreads() { return std::max(1, base::AllowedCpuCount() - 1); }

/// A whole run of a judged configuration, verified. One processor is left for paging.
Json Judged(const std::string& config, const std::vector<std::string>& more = {}) {
  const TemporaryDirectory spill;
  std::vector<std::string> words = {"train",
                                    "--config",
                                    testing::ProjectFile("configs/") + config,
                                    "--verify",
                                    "--json",
                                    "--set",
                                    "tiers.nvme.directory=" + spill.path(),
                                    "--set",
                                    "train.compute_threads=" + std::to_string(ComputeThreads())};
  words.insert(words.end(), more.begin(), more.end());
  Command command(words);
  EXPECT_EQ(command.Wait(), 0) << command.errors();
  EXPECT_THAT(spill.Names(), IsEmpty());
  return Json::parse(command.output());
}

/// Ratio of the step time to a limit that no run can beat: the step in RAM, or the links' time for
/// the least bytes.
double RatioToLimit(const Json& json) {
  const double ram = json["verify"]["ram_step_ms_median"];
  const double bound = json["volume_bound_ms"];
  return json["step_ms_median"].get<double>() / std::max(ram, bound);
}

void ExpectJudgedFigures(const Json& json) {
  EXPECT_EQ(json["steps"], 30);
  EXPECT_EQ(json["verify"]["identical"], true);
  EXPECT_LE(json["val_loss"].get<double>(), 0.8 * json["val_loss_first"].get<double>());
  EXPECT_LE(json["peak_rss_bytes"], (64 + 128 + 160) * kMiB);
  EXPECT_GE(json["live_bytes"].get<double>(), 3.2 * 192 * kMiB);
  EXPECT_LE(json["padding_bytes"].get<double>(), 0.05 * json["live_bytes"].get<double>());
  EXPECT_GE(json["verify"]["ram_gflops"].get<double>(),
            0.5 * json["matrix_products"]["gflops"].get<double>());
  for (const auto& [name, tier] : json["tiers"].items()) {
    EXPECT_LE(tier["peak_bytes"], tier["budget_bytes"]) << name;
  }
  EXPECT_LE(RatioToLimit(json), 1.15) << json;
}

TEST(TrainJudgedTest, TheMainJobHidesItsPaging) { ExpectJudgedFigures(Judged("train-gpt.toml")); }

TEST(TrainJudgedTest, AHalfLoadedLinkIsHiddenToo) {
  ExpectJudgedFigures(Judged("train-gpt-linkbound.toml"));
}

/// Loads at which the link needs half of a step in RAM, nearly as long, and longer. At half the
/// load no schedule is near max(RAM, volume), so the bound is that of windows.
class CrossoverTest : public ::testing::TestWithParam<const char*> {};

TEST_P(CrossoverTest, PlansAreNearTheBound) {
  const Json json = Judged("train-gpt-linkbound.toml",
                           {"--set",
                            "device.emulated.load=" + std::string(GetParam()),
                            "--set",
                            "train.steps=20",
                            "--set",
                            "train.val_every=100"});
  EXPECT_EQ(json["verify"]["identical"], true);
  const double ram = json["verify"]["ram_step_ms_median"];
  const double limit = std::max(ram, json["bound_ms"].get<double>());
  EXPECT_LE(json["step_ms_median"].get<double>(), 1.15 * limit) << json;
  std::printf("load %s: %s\n", GetParam(), json.dump().c_str());
}

INSTANTIATE_TEST_SUITE_P(Loads, CrossoverTest, ::testing::Values("0.5", "0.9", "1.5"));

/// The test that the judgement sees paging: a worse scheduler must fail it.
TEST(TrainJudgedTest, LruWithoutPrefetchMisses) {
  const Json json = Judged("train-gpt-linkbound.toml",
                           {"--set",
                            "train.steps=15",
                            "--set",
                            "scheduler.policy=lru",
                            "--set",
                            "scheduler.prefetch_ops=0"});
  EXPECT_EQ(json["verify"]["identical"], true);
  EXPECT_GT(RatioToLimit(json), 1.15) << json;
}

}  // namespace
}  // namespace sluice::tools
