#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/tools/lab/lab_run.h"

/// The bound in the output of `sluice lab run`.

namespace sluice::tools {
namespace {

/// A schedule of ops that read one page each. The first op takes long.
std::string ReadInTurn(int pages) {
  std::string text = "{\"schedule\": \"turns\"}\n";
  for (int i = 0; i < pages; ++i) {
    text += "{\"tensor\": " + std::to_string(i) + ", \"bytes\": 4096, \"persistent\": true}\n";
  }
  for (int i = 0; i < pages; ++i) {
    text += "{\"op\": " + std::to_string(i) + ", \"seconds\": " + (i == 0 ? "20" : "1") +
            ", \"reads\": [" + std::to_string(i) + "], \"writes\": []}\n";
  }
  return text;
}

Json BoundOf(const std::string& text, const Words& machine) {
  const TemporaryDirectory directory;
  Words words = machine;
  for (const char* word : {"--page=4KiB", "--policy=min", "--json"}) words.push_back(word);
  return JsonOf(LabRun(directory.Write("s", text), words)).at(0);
}

TEST(LabBoundTest, MoreOfAFastTierOrALinkSavesWhatTheBoundFallsBy) {
  // The long op leaves time to bring 9 pages of the other 29 above. The link takes 20 s for the
  // rest.
  const Json line = BoundOf(ReadInTurn(30), {"--tiers=hbm=40KiB", "--link=hbm-dram=4096B/s"});
  EXPECT_DOUBLE_EQ(line["bounds"]["compute"], 49);
  EXPECT_EQ(line["binds"], "compute") << "20 s of the link, beside 29 s of the ops";
  const Json slow = BoundOf(ReadInTurn(30), {"--tiers=hbm=40KiB", "--link=hbm-dram=1024B/s"});
  const double bound = slow["bound_s"];
  EXPECT_EQ(slow["binds"], "hbm-dram window");
  EXPECT_DOUBLE_EQ(bound, 20 + 20 * 4 + 1);
  EXPECT_NEAR(slow["savings"]["hbm"], 4 / bound, 1e-9) << "one page more";
  EXPECT_NEAR(slow["savings"]["hbm-dram"], (80 - 80 / 1.1) / bound, 1e-9);
  EXPECT_FALSE(slow["savings"].contains("dram")) << "the last tier";
}

TEST(LabBoundTest, AChainOfOpsOverLanesIsComputeToo) {
  const Json line = BoundOf(
      R"({"schedule": "lanes"}
{"op": 0, "seconds": 3, "reads": [], "writes": []}
{"op": 1, "seconds": 4, "lane": "cpu", "after": [0], "reads": [], "writes": []}
)",
      {"--tiers=hbm=4KiB", "--link=hbm-dram=1GiB/s"});
  EXPECT_DOUBLE_EQ(line["bound_s"], 7);
  EXPECT_DOUBLE_EQ(line["time_over_bound"], 1);
  EXPECT_EQ(line["binds"], "compute");
  EXPECT_EQ(line["savings"], Json::parse(R"({"hbm": 0.0, "hbm-dram": 0.0})"));
}

/// Both directions reach BOTH only while both have work.
TEST(LabBoundTest, ALinkThatIsSlowInBothDirectionsAtOnceIsFastInOne) {
  const Json line =
      BoundOf(ReadInTurn(3), {"--tiers=hbm=4KiB", "--link=hbm-dram=4096B/s/4096B/s/1024B/s"});
  EXPECT_DOUBLE_EQ(line["bound_s"], 22 + 3);
  EXPECT_DOUBLE_EQ(line["time_s"], 22 + 3);
}

TEST(LabBoundTest, NothingAloneMayHelp) {
  const TemporaryDirectory directory;
  Command command(
      LabRun(directory.Write("s", ReadInTurn(3)),
             {"--tiers=hbm=4KiB", "--link=hbm-dram=1GiB/s", "--page=4KiB", "--policy=min"}));
  ASSERT_EQ(command.Wait(), 0) << command.errors();
  EXPECT_TRUE(
      command.output().ends_with("\n\nbound by hbm-dram (windows); +10 % of no tier or link "
                                 "alone would save much\n"))
      << command.output();
}

}  // namespace
}  // namespace sluice::tools
