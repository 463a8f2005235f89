#include "tools/train/settings/recompute_planner.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::uint64_t kPage = 4096;

/// Two layers and one group: each stashes 8 pages for its backward, and reads one page that every
/// iteration has. An op computes for 1 s.
Schedule TwoLayers() {
  Schedule schedule{.key = "train", .page_bytes = kPage};
  const auto tensor = [&](const std::string& name, std::uint64_t pages) {
    const auto index = static_cast<std::uint32_t>(schedule.tensors.size());
    schedule.tensors.push_back({.name = name, .bytes = pages * kPage, .segment = index});
    return index;
  };
  const std::uint32_t weight = tensor("weight", 1);
  const std::uint32_t stash[] = {tensor("stash.l0.ln1.g0", 8), tensor("stash.l1.ln1.g0", 8)};
  const auto access = [](std::uint32_t index, AccessMode mode) {
    return ScheduleAccess{.tensor = index, .range = kWholeTensor, .mode = mode, .tier = kHbm0};
  };
  for (const int layer : {0, 1}) {
    const std::string prefix = "l" + std::to_string(layer);
    schedule.ops.push_back({.name = prefix + ".qkv.forward.g0",
                            .seconds = 1,
                            .accesses = {access(weight, AccessMode::kRead),
                                         access(stash[layer], AccessMode::kOverwrite)}});
    schedule.ops.push_back({.name = prefix + ".mlp.forward.g0", .seconds = 1});
  }
  for (const int layer : {1, 0}) {
    schedule.ops.push_back(
        {.name = "l" + std::to_string(layer) + ".proj.backward.g0",
         .seconds = 2,
         .accesses = {access(weight, AccessMode::kRead), access(stash[layer], AccessMode::kRead)},
         .discards = {access(stash[layer], AccessMode::kOverwrite)}});
  }
  return schedule;
}

/// hbm holds an op and little more.
TrainSettings Settings() {
  TrainSettings settings;
  settings.model.layers = 2;
  settings.train.batch = settings.train.group_sequences = 2;
  settings.runtime.page_bytes = Bytes(kPage);
  settings.runtime.hbm_bytes = Bytes(10 * kPage);
  settings.runtime.dram_bytes = Bytes(100 * kPage);
  settings.runtime.nvme_bytes = Bytes(100 * kPage);
  return settings;
}

std::map<std::string, LinkRates> Rates(double pages_per_second) {
  const double rate = pages_per_second * kPage;
  return {{kDeviceLink, {rate, rate, 2 * rate}}, {kDiskLink, {rate, rate, rate}}};
}

TEST(RecomputePlannerTest, AProblemHasWhatTheScheduleAndTheRatesTell) {
  // Recorded are 8 s; twice that is computed.
  const analysis::RecomputeProblem problem =
      MakeRecomputeProblem(Settings(), TwoLayers(), 16, Rates(5));
  EXPECT_DOUBLE_EQ(problem.write_seconds, 6) << "until l1.qkv.forward has ended";
  EXPECT_DOUBLE_EQ(problem.read_seconds, 10);
  ASSERT_EQ(problem.candidates.size(), 2u);
  EXPECT_DOUBLE_EQ(problem.candidates[0].bytes, 8 * kPage);
  EXPECT_DOUBLE_EQ(problem.candidates[0].recompute_seconds, 2 + 1);
  EXPECT_DOUBLE_EQ(problem.candidates[0].idle_seconds, 8);
  EXPECT_DOUBLE_EQ(problem.candidates[1].idle_seconds, 0);
  ASSERT_EQ(problem.links.size(), 2u);
  EXPECT_DOUBLE_EQ(problem.links[0].in_seconds, 1.0 / (5 * kPage));
  EXPECT_DOUBLE_EQ(problem.links[0].both_seconds, 0.5 / (5 * kPage));
  EXPECT_DOUBLE_EQ(problem.links[0].in_bytes, 0) << "the weight fits when nothing is stashed";
  EXPECT_DOUBLE_EQ(problem.links[0].out_bytes, 0);
  EXPECT_NEAR(problem.links[0].excess_bytes, 7 * kPage, kPage) << "17 pages live, 10 fit";
  EXPECT_DOUBLE_EQ(problem.links[1].excess_bytes, 0) << "dram holds all";
}

TEST(RecomputePlannerTest, WithoutNvmeAProblemHasTheDeviceLinkAlone) {
  TrainSettings settings = Settings();
  settings.runtime.nvme_bytes = Bytes();
  EXPECT_EQ(MakeRecomputeProblem(settings, TwoLayers(), 16, Rates(5)).links.size(), 1u);
}

TEST(RecomputePlannerTest, ASlowLinkMakesLayersRunAgainAndAFastOneNone) {
  const RecomputeReport slow =
      DecideRecompute(MakeRecomputeProblem(Settings(), TwoLayers(), 16, Rates(0.5)));
  EXPECT_THAT(slow.choice, ElementsAre(true, false));
  EXPECT_EQ(slow.layers_recomputed, 1);
  EXPECT_EQ(slow.layers_kept, 1);
  EXPECT_DOUBLE_EQ(slow.compute_seconds, 16);
  EXPECT_DOUBLE_EQ(slow.seconds, 16 + 3);
  EXPECT_GT(slow.seconds_without, slow.seconds);
  const RecomputeReport fast =
      DecideRecompute(MakeRecomputeProblem(Settings(), TwoLayers(), 16, Rates(1000)));
  EXPECT_THAT(fast.choice, ElementsAre(false, false));
  EXPECT_EQ(fast.layers_offloaded, 1);
  EXPECT_DOUBLE_EQ(fast.seconds, 16);
}

TEST(RecomputePlannerTest, ASmallGainIsNotWorthAChange) {
  analysis::RecomputeProblem problem{.write_seconds = 50, .read_seconds = 50};
  problem.candidates.push_back({.bytes = 10, .recompute_seconds = 1, .idle_seconds = 100});
  problem.links.push_back({.out_seconds = 5.2, .excess_bytes = 10});
  EXPECT_EQ(DecideRecompute(problem).layers_recomputed, 0) << "101 s instead of 102";
  problem.links.front().out_seconds = 5.5;
  EXPECT_EQ(DecideRecompute(problem).layers_recomputed, 1) << "101 s instead of 105";
}

TEST(RecomputePlannerTest, TheSentenceSaysWhatWasDecidedAndWhy) {
  RecomputeReport report{.choice = {true, false, false},
                         .layers_kept = 1,
                         .layers_offloaded = 1,
                         .layers_recomputed = 1,
                         .compute_seconds = 1,
                         .seconds_without = 2.5,
                         .seconds = 1.125};
  report.links["dram-nvme"] = {0.25, 0.125};
  report.links["hbm-dram"] = {2, 0.75};
  EXPECT_EQ(FormatRecompute(report),
            "1 layers kept, 1 offloaded, 1 recomputed: of a step that computes 1000.0 ms, hbm-dram "
            "takes 2000.0 ms; so 750.0 ms, for 1125.0 ms in all instead of 2500.0");
  report.layers_recomputed = 0;
  EXPECT_THAT(FormatRecompute(report), Not(HasSubstr("instead")));
}

}  // namespace
}  // namespace sluice::tools
