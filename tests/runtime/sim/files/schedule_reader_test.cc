#include "runtime/sim/files/schedule_reader.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/runtime/sim/files/gzip.h"
#include "tests/runtime/sim/files/read_text.h"
#include "tests/runtime/sim/files/write_schedule.h"
#include "tests/support/status_matchers.h"

namespace sluice::sim {
namespace {

using ::sluice::testing::IsOk;
using ::sluice::testing::IsStatus;
using ::testing::ElementsAre;

/// Every field that there is.
constexpr std::string_view kFull =
    R"({"schedule": "s", "version": 1, "key": "train", "ops": 3, "tensors": 4, "page_bytes": 4096, "source": "hand", "later": {"field": [1]}}
{"tensor": 7, "bytes": 8192, "persistent": true, "name": "w", "kind": "parameter", "home": "file"}
{"tensor": 3, "bytes": 100, "persistent": false, "segment": 5}

{"tensor": 4, "bytes": 50, "persistent": false, "segment": 5, "home": "store"}
{"tensor": 5, "bytes": 9, "persistent": false, "segment": 5, "offset": 1000, "kind": "kv"}
{"op": 10, "name": "a", "seconds": 0.5, "reads": [7], "writes": [3, [4, 10, 20]], "recompute_seconds": [null, 2]}
{"op": 12, "name": "b", "seconds": 1, "lane": "cpu", "tier": "dram", "tiers": {"7": "hbm1"}, "reads": [[7, 0, 4096], [7, 4096, 4096]], "writes": [], "after": [10]}
{"op": 15, "seconds": 0, "reads": [3], "writes": [4, 5], "after": [], "recompute_seconds": 0.25}
)";
std::string Full() { return std::string(kFull); }

FileSchedule FullSchedule() {
  FileSchedule schedule{.name = "s", .key = "train", .source = "hand", .page_bytes = 4096};
  schedule.tensors = {
      {.id = 7,
       .name = "w",
       .bytes = 8192,
       .persistent = true,
       .home = TensorHome::kFile,
       .kind = TensorKind::kParameter},
      {.id = 3, .bytes = 100, .segment = 5},
      {.id = 4, .bytes = 50, .segment = 5, .segment_offset = 100},
      {.id = 5, .bytes = 9, .kind = TensorKind::kKv, .segment = 5, .segment_offset = 1000}};
  schedule.ops = {{.id = 10,
                   .name = "a",
                   .seconds = 0.5,
                   .reads = {{0, {0, 8192}}},
                   .writes = {{1, {0, 100}}, {2, {10, 20}}},
                   .recompute_seconds = {std::nullopt, 2}},
                  {.id = 12,
                   .name = "b",
                   .lane = "cpu",
                   .seconds = 1,
                   .tier = kDram0,
                   .exceptions = {{0, {TierKind::kHbm, 1}}},
                   .reads = {{0, {0, 4096}}, {0, {4096, 4096}}},
                   .after = std::vector<std::uint32_t>{0}},
                  {.id = 15,
                   .reads = {{1, {0, 100}}},
                   .writes = {{2, {0, 50}}, {3, {0, 9}}},
                   .after = std::vector<std::uint32_t>{},
                   .recompute_seconds = {0.25, 0.25}}};
  return schedule;
}

TEST(ScheduleReaderTest, ReadsEveryField) {
  const absl::StatusOr<FileSchedule> schedule = ReadText(Full());
  ASSERT_THAT(schedule, IsOk());
  EXPECT_EQ(*schedule, FullSchedule());
}

TEST(ScheduleReaderTest, PiecesAndLineEndsMakeNoDifference) {
  std::string windows = Full();
  for (std::size_t i = 0; (i = windows.find('\n', i)) != std::string::npos; i += 2) {
    windows.insert(i, "\r");
  }
  std::string open_end = Full();
  open_end.pop_back();
  for (const std::string& text : {Full(), windows, open_end, Gzip(Full())}) {
    for (const std::size_t piece : {1, 2, 3, 100, 100'000}) {
      const absl::StatusOr<FileSchedule> schedule = ReadText(text, {.piece = piece});
      ASSERT_THAT(schedule, IsOk());
      EXPECT_EQ(*schedule, FullSchedule());
    }
  }
}

TEST(ScheduleReaderTest, AGzipFileMayHaveSeveralMembers) {
  const std::string text = Full();
  const absl::StatusOr<FileSchedule> schedule =
      ReadText(Gzip(text.substr(0, 200)) + Gzip("") + Gzip(text.substr(200)), {.piece = 7});
  ASSERT_THAT(schedule, IsOk());
  EXPECT_EQ(*schedule, FullSchedule());
}

TEST(ScheduleReaderTest, AWrittenScheduleReadsTheSame) {
  const absl::StatusOr<FileSchedule> schedule = ReadText(WriteSchedule(FullSchedule()));
  ASSERT_THAT(schedule, IsOk());
  EXPECT_EQ(*schedule, FullSchedule());
  EXPECT_EQ(WriteSchedule(*schedule), WriteSchedule(FullSchedule()));
}

std::string OneOp(const std::string& key, int ops) {
  std::string text = R"({"schedule": "x", "key": ")" + key + "\"}\n";
  for (int i = 0; i < ops; ++i) {
    text +=
        R"({"op": )" + std::to_string(i) + R"(, "seconds": 0, "reads": [], "writes": []})" + "\n";
  }
  return text;
}

TEST(ScheduleReaderTest, TheKeyChoosesTheScheduleElseTheMostOps) {
  const std::string text = OneOp("a", 1) + OneOp("b", 3) + OneOp("c", 2) + OneOp("d", 3);
  EXPECT_EQ(ReadText(text)->key, "b");
  EXPECT_EQ(ReadText(text, {.key = "c"})->key, "c");
  EXPECT_EQ(ReadText(text, {.key = "c"})->ops.size(), 2u);
  EXPECT_EQ(ReadText(text, {.key = "d"})->key, "d");
  EXPECT_THAT(ReadText(text, {.key = "e"}),
              IsStatus(absl::StatusCode::kNotFound,
                       R"(f holds no schedule of key "e"; there are "a", "b", "c", "d")"));
  EXPECT_THAT(ReadText(text + OneOp("c", 1)),
              IsStatus(absl::StatusCode::kInvalidArgument,
                       R"(f:14: the schedule of line 7 has the key "c", too)"));
  EXPECT_EQ(ReadText(OneOp("", 1), {.key = ""})->ops.size(), 1u);
}

}  // namespace
}  // namespace sluice::sim
