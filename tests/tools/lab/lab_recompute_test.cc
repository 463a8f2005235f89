#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tools/lab/lab_run.h"

namespace sluice::tools {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Tensor 0, written by f and read by h, is in the way of g, which needs both pages.
constexpr const char* kMakeAgain = R"({"schedule": "three"}
{"tensor": 0, "bytes": 4096, "persistent": false}
{"tensor": 1, "bytes": 8192, "persistent": false}
{"op": 3, "name": "f", "seconds": 1, "reads": [], "writes": [0], "recompute_seconds": 0.5}
{"op": 4, "name": "g", "seconds": 1, "reads": [], "writes": [1]}
{"op": 5, "name": "h", "seconds": 1, "reads": [0], "writes": []}
)";

Words TwoPages(const std::string& schedule, const Words& more) {
  Words words = LabRun(schedule,
                       {"--tiers=hbm=8KiB",
                        "--link=hbm-dram=4096B/s",
                        "--page=4KiB",
                        "--policy=lru",
                        "--prefetch-ops=0"});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(LabRecomputeTest, ATensorIsMadeAgainInPlaceOfComingBack) {
  const TemporaryDirectory directory;
  const std::string file = directory.Write("s", kMakeAgain);
  const Json none = JsonOf(TwoPages(file, {"--json"}))[0];
  EXPECT_EQ(none["time_s"], 5);
  EXPECT_FALSE(none.contains("recompute"));
  EXPECT_EQ(JsonOf(TwoPages(file, {"--json", "--recompute=none"}))[0]["time_s"], 5);
  for (const char* mode : {"all", "planned"}) {
    const Json run = JsonOf(TwoPages(file, {"--json", "--recompute", mode}))[0];
    EXPECT_EQ(run["time_s"], 3.5);
    EXPECT_EQ(run["compute_s"], 3.5);
    EXPECT_EQ(run["bound_s"], 3.5);
    EXPECT_EQ(run["links"]["hbm-dram"]["out_bytes"], 0);
    EXPECT_EQ(run["recompute"], Json::parse(R"({"taken": "all", "kept": 0, "kept_bytes": 0,
        "offloaded": 0, "offloaded_bytes": 0, "recomputed": 1, "recomputed_bytes": 4096,
        "recompute_s": 0.5})"));
  }
}

TEST(LabRecomputeTest, DearTensorsAreOffloadedIfPlanned) {
  const TemporaryDirectory directory;
  std::string text = kMakeAgain;
  text.replace(text.find("0.5"), 3, "2.5");
  const std::string file = directory.Write("s", text);
  EXPECT_EQ(JsonOf(TwoPages(file, {"--json", "--recompute=all"}))[0]["time_s"], 5.5);
  const Json run = JsonOf(TwoPages(file, {"--json", "--recompute=planned"}))[0];
  EXPECT_EQ(run["time_s"], 5);
  EXPECT_EQ(run["recompute"]["taken"], "none");
  EXPECT_EQ(run["recompute"]["offloaded_bytes"], 4096);
}

TEST(LabRecomputeTest, TellsPeopleAndTimelinesTheSame) {
  const TemporaryDirectory directory;
  const std::string file = directory.Write("s", kMakeAgain);
  const std::string trace = directory / "t.json";
  Command command(TwoPages(file, {"--recompute=planned", "--trace", trace}));
  ASSERT_EQ(command.Wait(), 0) << command.errors();
  EXPECT_THAT(command.output(),
              AllOf(HasSubstr("three: 3 ops, 2 tensors"),
                    HasSubstr("\nlru: 3.500 s, 1.0000 x compute (3.500 s), 1.000 x bound\n"),
                    HasSubstr("  recompute      all: 0 kept (0 B), 0 offloaded (0 B), 1 made again "
                              "(4 KiB) in 0.500 s\n"),
                    HasSubstr("  bound          3.500 s, bound by compute\n"),
                    HasSubstr("\nbound by hbm-dram"),
                    ::testing::EndsWith(" (with nothing made again)\n")));
  EXPECT_THAT(ReadWhole(trace), HasSubstr("f again"));
}

TEST(LabRecomputeTest, TheBoundIsThatOfTheScheduleThatRuns) {
  const TemporaryDirectory directory;
  const std::string file = directory.Write("s", kMakeAgain);
  Command command(TwoPages(file, {"--recompute=all"}));
  ASSERT_EQ(command.Wait(), 0) << command.errors();
  EXPECT_THAT(command.output(),
              AllOf(HasSubstr("  bound          3.500 s (with all made again)\n"),
                    HasSubstr("  bound          3.500 s, bound by compute\n"),
                    HasSubstr("\nbound by compute (with all made again)\n")));
}

TEST(LabRecomputeTest, PlannedIsNoSlowerThanNoneAndAll) {
  const std::vector<Words> machines = {
      LargeMachine({}),
      {"--tiers=hbm=6GiB,dram=8GiB",
       "--link=hbm-dram=6GiB/s",
       "--link=dram-nvme=3GiB/s",
       "--page=16MiB"},
      {"--tiers=hbm=12GiB", "--link=hbm-dram=32GiB/s", "--page=16MiB"}};
  for (const Words& machine : machines) {
    for (const char* policy : {"planned", "min", "lru"}) {
      const auto time = [&](const char* mode) {
        Words words = LabRun(kTraining, machine);
        words.insert(words.end(), {"--policy", policy, "--json", "--recompute", mode});
        return JsonOf(words)[0]["time_s"].get<double>();
      };
      EXPECT_LE(time("planned"), std::min(time("none"), time("all"))) << machine[0] << policy;
    }
  }
}

TEST(LabRecomputeTest, WithoutCostsThereIsNothingToMakeAgain) {
  const TemporaryDirectory directory;
  const std::string file = directory.Write("s", kWriteTwo);
  for (const char* mode : {"all", "planned"}) {
    const Json run = JsonOf(LabRun(file, SmallMachine({"--json", "--recompute", mode})))[0];
    EXPECT_EQ(run["recompute"]["recomputed"], 0);
    EXPECT_EQ(run["compute_s"], 2);
  }
}

TEST(LabRecomputeTest, AnUnknownChoiceIsRefused) {
  const TemporaryDirectory directory;
  EXPECT_THAT(UserError(TwoPages(directory.Write("s", kMakeAgain), {"--recompute=some"})),
              HasSubstr("--recompute: \"some\" is neither none nor all nor planned"));
}

}  // namespace
}  // namespace sluice::tools
