#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tools/support/median.h"
#include "tools/train/report/link_rates.h"
#include "tools/train/report/run_report.h"

namespace sluice::tools {
namespace {

using Json = nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

/// Three steps of 1.0, 2.0 and 4.0 s, the first not judged.
RunReport ThreeSteps() {
  RunReport report;
  for (const double seconds : {1.0, 2.0, 4.0}) {
    const int step = static_cast<int>(report.steps.size()) + 1;
    report.steps.push_back({.step = step,
                            .loss = 5.0 - step,
                            .seconds = seconds,
                            .stall_seconds = seconds / 4,
                            .links = {{"hbm-dram", {100, 10}}},
                            .judged = step > 1});
  }
  report.val_loss_first = 5.5;
  report.val_loss = 3.5;
  report.links["hbm-dram"] = {350, 30};
  report.tiers["hbm"] = {.budget_bytes = 64, .peak_bytes = 60, .by_kind = {1, 0, 0, 2, 0, 0}};
  report.bounds["hbm-dram"] = {.bytes = {.in_bytes = 90, .out_bytes = 9}, .seconds = 0.5};
  report.bounds["dram-nvme"] = {.bytes = {.in_bytes = 50, .out_bytes = 5}, .seconds = 2.9};
  report.bound_seconds = 3.1;
  report.peak_rss_bytes = 1000;
  report.live_bytes = 900;
  report.padding_bytes = 9;
  return report;
}

TEST(RunReportTest, FiguresCountJudgedStepsOnly) {
  const RunReport report = ThreeSteps();
  EXPECT_DOUBLE_EQ(StepSecondsMedian(report), 3.0);
  EXPECT_DOUBLE_EQ(StallFraction(report), 0.25);
  EXPECT_EQ(BytesPerStep(report, "hbm-dram").in, 100u);
  EXPECT_EQ(BytesPerStep(report, "none").in, 0u);
  EXPECT_DOUBLE_EQ(VolumeBoundSeconds(report), 2.9);
}

/// Keys are those of gpt::kTrainKeys, with or without a suffix.
RunReport StepsWithKeys(const std::vector<std::string>& keys) {
  RunReport report;
  for (const std::string& key : keys) {
    const std::string kind = key.substr(0, key.find(".recompute"));
    const auto* const found =
        std::find(std::begin(gpt::kTrainKeys), std::end(gpt::kTrainKeys), kind);
    report.steps.push_back({.step = static_cast<int>(report.steps.size()) + 1,
                            .kind = static_cast<gpt::StepKind>(found - std::begin(gpt::kTrainKeys)),
                            .key = key});
  }
  return report;
}

TEST(RunReportTest, TheMainKeyIsThatOfMostSteps) {
  const RunReport usual = StepsWithKeys(
      {"train.first", "train", "train", "train.last", "train.first", "train", "train.last"});
  EXPECT_EQ(MainKey(usual), "train");
  EXPECT_EQ(MainKey(StepsWithKeys({"train.first", "train", "train.last", "train.first"})), "train")
      << "a usual step counts twice";
  EXPECT_EQ(MainKey(StepsWithKeys({"train.first", "train", "train.first", "train.first"})),
            "train.first");
  EXPECT_EQ(MainKey(StepsWithKeys({"train.alone"})), "train.alone");
}

TEST(RunReportTest, TheMainKeyIsThatOfJudgedSteps) {
  RunReport report = StepsWithKeys({"train.first",
                                    "train",
                                    "train",
                                    "train",
                                    "train.recompute",
                                    "train.last.recompute",
                                    "train.first.recompute"});
  EXPECT_EQ(MainKey(report), "train");
  for (std::size_t i = 0; i < 4; ++i) report.steps[i].judged = false;
  EXPECT_EQ(MainKey(report), "train.recompute") << "the usual kind of three that are as many";
  for (StepRecord& step : report.steps) step.judged = false;
  EXPECT_EQ(MainKey(report), "train") << "none is judged";
  EXPECT_EQ(MainKey({}), "train");
}

/// Result of WhatBinds for a step that waits for the share `waiting` of its time, with a link that
/// is busy for the share `link`.
std::string WhatBindsAt(double waiting, double link) {
  RunReport report;
  report.steps.push_back({.step = 1, .seconds = 1, .stall_seconds = waiting});
  report.bounds["dram-nvme"] = {.seconds = link};
  return WhatBinds(report);
}

TEST(RunReportTest, SaysWhatMostOfTheStepIs) {
  EXPECT_EQ(WhatBindsAt(0.09, 0.5), "bound by compute; waiting for pages costs 9 % of the step");
  EXPECT_EQ(WhatBindsAt(0.9, 0.3),
            "bound by waiting: 90 % of the step is stalls, though dram-nvme needs only 30 % of it");
  EXPECT_EQ(WhatBindsAt(0.25, 0.97),
            "bound by dram-nvme: what must cross it takes 97 % of the step");
}

TEST(RunReportTest, SaysWhatBindsAtTheBorders) {
  EXPECT_THAT(WhatBindsAt(0.5, 0.3), HasSubstr("bound by compute"));
  EXPECT_THAT(WhatBindsAt(0.51, 0.3), HasSubstr("bound by waiting"));
  EXPECT_THAT(WhatBindsAt(0.51, 0.8), HasSubstr("bound by waiting"));
  EXPECT_THAT(WhatBindsAt(0.51, 0.81), HasSubstr("bound by dram-nvme"));
  EXPECT_THAT(WhatBindsAt(0.3, 0.8), HasSubstr("bound by compute"));
  EXPECT_THAT(WhatBindsAt(0.09, 0.9), HasSubstr("bound by compute")) << "compute is more";
  EXPECT_THAT(WhatBindsAt(0.09, 0.92), HasSubstr("bound by dram-nvme"));
  RunReport unbounded;
  unbounded.steps.push_back({.step = 1, .seconds = 1, .stall_seconds = 0.75});
  EXPECT_EQ(WhatBinds(unbounded), "bound by waiting: 75 % of the step is stalls");
}

const gpt::ComputeRate kRate{.library = {.name = "oneDNN 2.6.3", .kernels = gpt::VectorSet::kAvx2},
                             .processor = gpt::VectorSet::kAvx2,
                             .threads = 2,
                             .gflops = 150,
                             .peak_gflops = 200};

std::vector<std::string> KeysOf(const Json& json) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  return keys;
}

TEST(ReportJsonTest, IsOneLineWithExactlyTheDocumentedFields) {
  RunReport report = ThreeSteps();
  report.verify = VerifyReport{.identical = true, .slowdown = 1.25};
  report.fallbacks.push_back({"io_uring", "refused", "threads"});
  report.compute = kRate;
  const std::string text = FormatJson(report);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  const Json json = Json::parse(text);
  EXPECT_THAT(KeysOf(json),
              UnorderedElementsAre("steps",
                                   "loss_first",
                                   "loss_last",
                                   "val_loss_first",
                                   "val_loss",
                                   "step_ms_median",
                                   "bound_key",
                                   "bound_ms",
                                   "time_over_bound",
                                   "volume_bound_ms",
                                   "stall_fraction",
                                   "links",
                                   "tiers",
                                   "bound",
                                   "peak_rss_bytes",
                                   "live_bytes",
                                   "padding_bytes",
                                   "plans",
                                   "schedule_divergences",
                                   "fallbacks",
                                   "matrix_products",
                                   "verify"));
  EXPECT_EQ(json["steps"], 3);
  EXPECT_EQ(json["loss_first"], 4.0);
  EXPECT_EQ(json["loss_last"], 2.0);
  EXPECT_EQ(json["step_ms_median"], 3000.0);
  EXPECT_EQ(json["volume_bound_ms"], 2900.0);
  EXPECT_EQ(json["bound_ms"], 3100.0);
  EXPECT_DOUBLE_EQ(json["time_over_bound"], 3.0 / 3.1);
  EXPECT_EQ(json["links"]["hbm-dram"]["in_bytes"], 350);
  EXPECT_EQ(json["links"]["hbm-dram"]["out_bytes_per_step"], 10);
  EXPECT_EQ(json["tiers"]["hbm"], Json::parse(R"({"budget_bytes":64,"peak_bytes":60})"));
  EXPECT_EQ(json["bound"]["hbm-dram"],
            Json::parse(R"({"in_bytes":90.0,"out_bytes":9.0,"ms":500.0})"));
  EXPECT_EQ(json["fallbacks"][0]["chosen"], "threads");
  EXPECT_EQ(json["matrix_products"],
            Json::parse(R"({"library":"oneDNN 2.6.3","kernels":"AVX2","threads":2,
                            "gflops":150.0,"peak_gflops":200.0,"peak_share":0.75})"));
  EXPECT_THAT(KeysOf(json["verify"]),
              UnorderedElementsAre("identical", "ram_step_ms_median", "slowdown", "ram_gflops"));
}

TEST(ReportJsonTest, FieldsThatDoNotApplyAreAbsent) {
  const Json json = Json::parse(FormatJson(RunReport()));
  for (const char* key : {"loss_first", "val_loss", "bound_ms", "verify"}) {
    EXPECT_FALSE(json.contains(key)) << key;
  }
  EXPECT_EQ(json["steps"], 0);
  EXPECT_TRUE(json["fallbacks"].is_array());
}

TEST(ReportTextTest, NamesLossesTiersLinksAndFallbacks) {
  RunReport report = ThreeSteps();
  report.verify = VerifyReport{.identical = false, .difference = "tensor x differs at offset 7"};
  report.compute = kRate;
  const std::string text = FormatSummary(report);
  for (const char* part : {"4.0000 -> 2.0000",
                           "5.5000 -> 3.5000",
                           "3000.0 ms median of 2 of 3",
                           "25.0 % of the time",
                           "100 B in, 10 B out per step",
                           "peak 60 B of 64 B",
                           "parameter 1 B, activation 2 B",
                           "matrix products    oneDNN 2.6.3, AVX2 kernels, 2 threads: 75 % of",
                           "fallbacks          none",
                           "DIFFERENT: tensor x differs at offset 7",
                           "bound by dram-nvme"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_EQ(FormatSummary(RunReport()), "no step was made\n");
}

TEST(ReportTextTest, TiersBeginWithTheFastest) {
  RunReport report = ThreeSteps();
  report.tiers["nvme"] = report.tiers["dram"] = {};
  const std::string text = FormatSummary(report);
  EXPECT_LT(text.find("\nhbm  "), text.find("\ndram  "));
  EXPECT_LT(text.find("\ndram  "), text.find("\nnvme  "));
}

TEST(ReportTest, RetiredPlacesAreNamedWhereThereAreAny) {
  RunReport report = ThreeSteps();
  EXPECT_FALSE(Json::parse(FormatJson(report)).contains("retired_places"));
  EXPECT_THAT(FormatSummary(report), Not(HasSubstr("retired")));
  report.retired_places = 1;
  EXPECT_THAT(FormatSummary(report),
              HasSubstr("1 place of nvme lost a page and is used no more\n"));
  report.retired_places = 2;
  EXPECT_THAT(FormatSummary(report),
              HasSubstr("2 places of nvme lost a page and are used no more\n"));
  EXPECT_EQ(Json::parse(FormatJson(report))["retired_places"], 2);
}

TEST(ReportTest, DecisionsOnRecomputingAreReportedIfMade) {
  RunReport report = ThreeSteps();
  EXPECT_FALSE(Json::parse(FormatJson(report)).contains("recompute"));
  EXPECT_THAT(FormatSummary(report), Not(HasSubstr("recompute")));
  report.recompute = RecomputeReport{.choice = {true, false, true},
                                     .layers_offloaded = 1,
                                     .layers_recomputed = 2,
                                     .seconds_without = 2,
                                     .seconds = 1.5};
  EXPECT_EQ(Json::parse(FormatJson(report))["recompute"],
            Json::parse(R"({"layers": [0, 2], "kept": 0, "offloaded": 1, "recomputed": 2,
                            "step_ms_without": 2000.0, "step_ms": 1500.0})"));
  EXPECT_THAT(FormatSummary(report),
              HasSubstr("\nrecompute          0 layers kept, 1 offloaded, 2 recomputed\n"));
}

TEST(ReportTextTest, AnInterruptedRunSaysWhatIsMissing) {
  RunReport report = ThreeSteps();
  EXPECT_FALSE(Json::parse(FormatJson(report)).contains("interrupted"));
  report.steps_wanted = 30;
  report.interrupted = true;
  EXPECT_THAT(FormatSummary(report), StartsWith("interrupted after 3 of 30 steps\n"));
  report.steps_before = 12;
  EXPECT_THAT(FormatSummary(report),
              StartsWith("interrupted after 15 of 30 steps, 3 in this run\n"));
  EXPECT_EQ(Json::parse(FormatJson(report))["steps_before"], 12);
  report.steps_before = 0;
  report.verify_wanted = true;
  EXPECT_THAT(FormatSummary(report),
              StartsWith("interrupted after 3 of 30 steps; the verification was not made\n"));
  EXPECT_EQ(Json::parse(FormatJson(report))["interrupted"], true);
}

TEST(MedianTest, TakesTheMiddle) {
  EXPECT_EQ(Median({}), 0);
  EXPECT_EQ(Median({3, 1, 2}), 2);
  EXPECT_EQ(Median({4, 1, 2, 3}), 2.5);
}

TEST(LinkBoundsTest, TimeIsTheLargestOfTheThreeLimits) {
  const analysis::BoundBytes bytes{.in_bytes = 100, .out_bytes = 50};
  EXPECT_DOUBLE_EQ(BoundSeconds(bytes, {.in = 10, .out = 100, .both = 100}), 10);
  EXPECT_DOUBLE_EQ(BoundSeconds(bytes, {.in = 100, .out = 2, .both = 100}), 25);
  EXPECT_DOUBLE_EQ(BoundSeconds(bytes, {.in = 100, .out = 100, .both = 5}), 30);
  const double rate = RateForSeconds(bytes, 4);
  EXPECT_DOUBLE_EQ(BoundSeconds(bytes, {.in = rate, .out = rate, .both = 2 * rate}), 4);
}

TEST(LinkBoundsTest, BudgetsAreWholePagesAndTheDiskSeesBoth) {
  Schedule schedule{.key = "train", .page_bytes = 4096};
  for (std::uint32_t i = 0; i < 6; ++i) {
    schedule.tensors.push_back({.bytes = 4096, .segment = i});
    schedule.ops.push_back(
        {.accesses = {
             {.tensor = i, .range = kWholeTensor, .mode = AccessMode::kReadWrite, .tier = kHbm0}}});
  }
  RuntimeOptions options{.page_bytes = 4_KiB,
                         .hbm_bytes = Bytes(2 * 4096 + 4000),
                         .dram_bytes = Bytes(2 * 4096 + 200),
                         .nvme_bytes = Bytes(8 * 4096)};
  const LinkBounds bounds = ComputeLinkBounds(schedule, options);
  // Pages that do not fit beside the op's page, in the frames left over, go out.
  EXPECT_DOUBLE_EQ(bounds.at("hbm-dram").bytes.out_bytes, (6 - 2) * 4096);
  EXPECT_DOUBLE_EQ(bounds.at("dram-nvme").bytes.out_bytes, (6 - 4) * 4096);
  options.nvme_bytes = Bytes();
  EXPECT_THAT(LinksOf(options), ElementsAre("hbm-dram"));
  EXPECT_FALSE(ComputeLinkBounds(schedule, options).contains("dram-nvme"));
}

TEST(LinkRatesTest, AModelledRateLimitsALink) {
  const LinkRates plain{.in = 10, .out = 8, .both = 12};
  EXPECT_DOUBLE_EQ(LimitRates(plain, 0, 0).both, 12);
  const LinkRates slow = LimitRates(plain, 3, 0);
  EXPECT_DOUBLE_EQ(slow.in, 3);
  EXPECT_DOUBLE_EQ(slow.out, 8);
  EXPECT_DOUBLE_EQ(slow.both, 11);
  EXPECT_DOUBLE_EQ(LimitRates(plain, 3, 20).out, 8);
}

}  // namespace
}  // namespace sluice::tools
