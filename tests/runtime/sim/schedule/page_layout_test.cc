#include "runtime/sim/schedule/page_layout.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/sim/schedule/page_spaces.h"
#include "tests/runtime/sim/files/read_text.h"
#include "tests/support/status_matchers.h"

namespace sluice::sim {
namespace {

using ::sluice::testing::IsOk;
using ::sluice::testing::IsStatus;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

FileSchedule Read(const std::string& lines) {
  const auto schedule = ReadText("{\"schedule\": \"s\"}\n" + lines);
  EXPECT_THAT(schedule, IsOk());
  return schedule.ok() ? *schedule : FileSchedule{};
}

LayoutOptions TwoTiers() { return {.page_bytes = 100, .tiers = {TierKind::kHbm, TierKind::kDram}}; }

PageLayout LaidOut(const std::string& lines, const LayoutOptions& options = TwoTiers()) {
  const auto layout = LayOut(Read(lines), options);
  EXPECT_THAT(layout, IsOk());
  return layout.ok() ? *layout : PageLayout{};
}

absl::Status Refused(const std::string& lines, const LayoutOptions& options = TwoTiers()) {
  return LayOut(Read(lines), options).status();
}

/// "3r 4w 5o@1": the pages of an op with their modes; tier 0 is not said.
std::string Requests(const PagedOp& op) {
  std::string text;
  for (const core::PageRequest& request : op.requests) {
    if (!text.empty()) text += ' ';
    text += std::to_string(request.page) + "rwo"[static_cast<int>(request.mode)];
    if (request.tier > 0) text += '@' + std::to_string(request.tier);
  }
  return text;
}

/// Pages, then the ops that touch it, then "p" and "f" when it persists and has a home in a file.
std::vector<std::string> Runs(const PageLayout& layout) {
  std::vector<std::string> runs;
  for (const LayoutRun& run : layout.runs) {
    runs.push_back(std::to_string(run.first_page) + '+' + std::to_string(run.pages) + " ops " +
                   std::to_string(run.ops) + (run.persistent ? " p" : "") +
                   (run.file_home ? " f" : ""));
  }
  return runs;
}

TEST(PageSpacesTest, TensorsOfASegmentSharePagesOthersDoNot) {
  const FileSchedule schedule = Read(R"({"tensor": 0, "bytes": 150, "persistent": true}
{"tensor": 1, "bytes": 30, "persistent": true, "segment": 5}
{"tensor": 2, "bytes": 90, "persistent": true, "segment": 5}
{"tensor": 3, "bytes": 100, "persistent": true}
{"tensor": 4, "bytes": 10, "persistent": true, "segment": 5, "offset": 310}
{"op": 0, "seconds": 1, "reads": [], "writes": []}
)");
  const auto spaces = PageSpaces::Create(schedule, 100, 1000);
  ASSERT_THAT(spaces, IsOk());
  // 0, 1: tensor 0; 2 to 5: the segment, of which 4 is a gap; 6: tensor 3.
  EXPECT_EQ(spaces->pages(), 7u);
  std::vector<std::uint64_t> used;
  std::vector<std::uint32_t> tensors;
  for (PageIndex page = 0; page < spaces->pages(); ++page) {
    used.push_back(spaces->BytesUsed(page));
    tensors.push_back(spaces->TensorOf(page));
  }
  EXPECT_THAT(used, ElementsAre(100, 50, 100, 20, 0, 10, 100));
  EXPECT_THAT(tensors, ElementsAre(0, 0, 1, 2, kNoTensor, 4, 3));
  const FileAccess part{2, {60, 15}};  // bytes 90 to 105 of the segment
  EXPECT_EQ(spaces->OfAccess(part).first, 2u);
  EXPECT_EQ(spaces->OfAccess(part).last, 4u);
  EXPECT_EQ(spaces->BytesIn(part, 2), 10u);
  EXPECT_EQ(spaces->BytesIn(part, 3), 5u);
}

TEST(PageSpacesTest, APageIsWhatItsTensorsAreTogether) {
  const FileSchedule schedule =
      Read(R"({"tensor": 0, "bytes": 50, "persistent": false, "segment": 1, "kind": "gradient"}
{"tensor": 1, "bytes": 100, "persistent": true, "segment": 1, "kind": "kv", "home": "file"}
{"op": 0, "seconds": 1, "reads": [], "writes": []}
)");
  const auto spaces = PageSpaces::Create(schedule, 100, 1000);
  ASSERT_THAT(spaces, IsOk());
  EXPECT_EQ(spaces->FactsOf(0),
            (PageSpaces::Facts{.kind = TensorKind::kGradient, .persistent = true}));
  EXPECT_EQ(spaces->FactsOf(1),
            (PageSpaces::Facts{.kind = TensorKind::kKv, .persistent = true, .file_home = true}));
}

TEST(PageSpacesTest, BoundsItsMemoryAndItsTime) {
  const std::string op = "{\"op\": 0, \"seconds\": 1, \"reads\": [], \"writes\": []}\n";
  const std::string big = "{\"tensor\": 0, \"bytes\": 100000, \"persistent\": true}\n";
  EXPECT_THAT(PageSpaces::Create(Read(big + op), 100, 1000), IsOk());
  EXPECT_THAT(
      PageSpaces::Create(Read(big + op), 100, 999).status(),
      IsStatus(absl::StatusCode::kResourceExhausted, "more than 999 pages; give a larger --page"));
  std::string many;
  for (int i = 0; i < 20; ++i) {
    many += "{\"tensor\": " + std::to_string(i) +
            ", \"bytes\": 100000, \"persistent\": true, \"segment\": 0, \"offset\": 0}\n";
  }
  EXPECT_THAT(PageSpaces::Create(Read(many + op), 100, 1000).status(),
              IsStatus(absl::StatusCode::kResourceExhausted, "overlap too often"));
}

TEST(PageLayoutTest, AnOpAsksForThePagesOfItsParts) {
  const PageLayout layout = LaidOut(R"({"tensor": 0, "bytes": 1000, "persistent": true}
{"op": 4, "name": "f", "seconds": 2, "reads": [[0,150,100], [0,250,60], [0,990,10]], "writes": []}
{"op": 6, "seconds": 1, "reads": [[0, 99, 1], [0, 100, 1], [0, 0, 5]], "writes": []}
)");
  EXPECT_EQ(layout.ops[0].id, 4u);
  EXPECT_EQ(Describe(layout.ops[0]), "op 4 (f, line 3)");
  EXPECT_EQ(Describe(layout.ops[1]), "op 6 (line 4)");
  EXPECT_EQ(Requests(layout.ops[0]), "1r 2r 3r 9r");
  EXPECT_EQ(Requests(layout.ops[1]), "0r 1r");
}

TEST(PageLayoutTest, OnlyAnAccessThatCoversAPageOverwritesIt) {
  const PageLayout layout = LaidOut(R"({"tensor": 0, "bytes": 250, "persistent": true}
{"op": 0, "seconds": 1, "reads": [], "writes": [0]}
{"op": 1, "seconds": 1, "reads": [], "writes": [[0, 50, 150]]}
{"op": 2, "seconds": 1, "reads": [[0, 120, 1]], "writes": [0]}
{"op": 3, "seconds": 1, "reads": [], "writes": [[0, 0, 60], [0, 40, 60]]}
{"op": 4, "seconds": 1, "reads": [], "writes": [[0, 0, 60], [0, 61, 39]]}
{"op": 5, "seconds": 1, "reads": [], "writes": [[0, 0, 60], [0, 0, 60]]}
)");
  EXPECT_EQ(Requests(layout.ops[0]), "0o 1o 2o");  // page 2 has 50 bytes only
  EXPECT_EQ(Requests(layout.ops[1]), "0w 1o");
  EXPECT_EQ(Requests(layout.ops[2]), "1w 0o 2o");
  EXPECT_EQ(Requests(layout.ops[3]), "0o");  // parts that overlap count once
  EXPECT_EQ(Requests(layout.ops[4]), "0w");
  EXPECT_EQ(Requests(layout.ops[5]), "0w");
}

TEST(PageLayoutTest, APageOfSeveralTensorsIsOverwrittenByAllOfThem) {
  const PageLayout layout = LaidOut(R"({"tensor": 0, "bytes": 40, "persistent": true, "segment": 0}
{"tensor": 1, "bytes": 40, "persistent": true, "segment": 0}
{"op": 0, "seconds": 1, "reads": [], "writes": [0]}
{"op": 1, "seconds": 1, "reads": [], "writes": [1, 0]}
{"op": 2, "seconds": 1, "reads": [1], "writes": [0]}
)");
  EXPECT_EQ(Requests(layout.ops[0]), "0w");
  EXPECT_EQ(Requests(layout.ops[1]), "0o");
  EXPECT_EQ(Requests(layout.ops[2]), "0w");
}

TEST(PageLayoutTest, TensorsAreWhereTheOpNeedsThem) {
  LayoutOptions options = TwoTiers();
  options.tiers.push_back(TierKind::kNvme);
  const PageLayout layout = LaidOut(R"({"tensor": 0, "bytes": 100, "persistent": true}
{"tensor": 1, "bytes": 100, "persistent": true, "segment": 1}
{"tensor": 2, "bytes": 100, "persistent": true, "segment": 1, "offset": 50}
{"op": 0, "seconds": 1, "tier": "dram", "reads": [0], "writes": [1]}
{"op": 1, "seconds": 1, "tiers": {"1": "dram"}, "reads": [0, 1, 2], "writes": []}
)",
                                    options);
  EXPECT_EQ(Requests(layout.ops[0]), "0r@1 1w@1");  // tensor 2 has bytes in page 1 too
  EXPECT_EQ(Requests(layout.ops[1]), "0r 1r 2r");   // a page is where the most demanding needs it
}

TEST(PageLayoutTest, PagesThatComeAndGoTogetherAreARun) {
  const PageLayout layout =
      LaidOut(R"({"tensor": 0, "bytes": 200, "persistent": true, "home": "file"}
{"tensor": 1, "bytes": 300, "persistent": false}
{"tensor": 2, "bytes": 100, "persistent": false}
{"tensor": 3, "bytes": 100, "persistent": true}
{"op": 0, "seconds": 1, "reads": [0], "writes": [1]}
{"op": 1, "seconds": 1, "reads": [[1, 0, 150]], "writes": [2]}
{"op": 2, "seconds": 1, "reads": [2], "writes": [3]}
)");
  // Page 4 of tensor 1 ends with op 0, its other pages with op 1.
  EXPECT_THAT(Runs(layout),
              ElementsAre("0+2 ops 0 p f", "2+2 ops 2", "4+1 ops 1", "5+1 ops 2", "6+1 ops 0 p"));
  EXPECT_THAT(layout.ops[0].runs, ElementsAre(1, 2));
  EXPECT_THAT(layout.ops[1].runs, ElementsAre(1, 3));
  EXPECT_THAT(layout.ops[2].runs, ElementsAre(3));
}

TEST(PageLayoutTest, UnwrittenPersistentTensorsHaveContentFromTheStart) {
  const PageLayout layout = LaidOut(R"({"tensor": 0, "bytes": 400, "persistent": true}
{"tensor": 1, "bytes": 100, "persistent": false}
{"op": 0, "seconds": 1, "reads": [0, 1], "writes": [[0, 150, 100]]}
)");
  EXPECT_THAT(Runs(layout),
              ElementsAre("0+1 ops 0 p f", "1+2 ops 0 p", "3+1 ops 0 p f", "4+1 ops 1"));
}

TEST(PageLayoutTest, LanesAndWhatTheyWaitForGiveTheComputeTime) {
  const PageLayout layout = LaidOut(R"({"op": 0, "seconds": 1, "reads": [], "writes": []}
{"op": 2, "seconds": 2, "lane": "cpu", "after": [0], "reads": [], "writes": []}
{"op": 3, "seconds": 4, "reads": [], "writes": []}
{"op": 5, "seconds": 8, "after": [2], "reads": [], "writes": []}
{"op": 6, "seconds": 1, "lane": "cpu", "after": [], "reads": [], "writes": []}
)");
  EXPECT_THAT(layout.lanes, ElementsAre("gpu", "cpu"));
  EXPECT_EQ(layout.ops[1].lane, 1u);
  EXPECT_THAT(layout.ops[1].after, ElementsAre(0));
  EXPECT_THAT(layout.ops[2].after, IsEmpty());
  EXPECT_THAT(layout.ops[3].after, ElementsAre(1));
  EXPECT_EQ(ComputeSeconds(layout), 13);  // 0, 3, 5
}

TEST(PageLayoutTest, ErrorsNameTheOpAndTheTier) {
  const std::string tensor = "{\"tensor\": 0, \"bytes\": 100, \"persistent\": true}\n";
  const auto op = [&](const std::string& tier) {
    return tensor + "{\"op\": 7, \"name\": \"adam\", \"seconds\": 1, \"tier\": \"" + tier +
           "\", \"reads\": [0], \"writes\": []}\n";
  };
  EXPECT_THAT(Refused(op("dram1")),
              IsStatus(absl::StatusCode::kInvalidArgument,
                       "op 7 (adam, line 3) needs tensors in dram1, which is not among the tiers"));
  EXPECT_THAT(Refused(op("hbm1")),
              IsStatus(absl::StatusCode::kInvalidArgument, "needs tensors in hbm1"));
  LayoutOptions options = TwoTiers();
  options.requests_max = 0;
  EXPECT_THAT(Refused(op("hbm"), options),
              IsStatus(absl::StatusCode::kResourceExhausted, "more than 0 pages"));
}

}  // namespace
}  // namespace sluice::sim
