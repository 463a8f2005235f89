#include <chrono>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "runtime/sim/files/schedule_reader.h"
#include "tests/tools/temporary_directory.h"
#include "tools/support/trace_file.h"
#include "tools/train/files/record_file.h"

namespace sluice::tools {
namespace {

using Json = nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

Schedule OneOp(const std::string& key) {
  Schedule schedule{.key = key, .page_bytes = 4096};
  schedule.tensors = {{.name = "weight", .kind = TensorKind::kParameter, .bytes = 8192}};
  schedule.ops = {{.name = "forward",
                   .lane = "gpu",
                   .accesses = {{.tensor = 0, .range = kWholeTensor, .tier = kHbm0}}}};
  return schedule;
}

TEST(RecordFileTest, AFileHoldsSeveralSchedules) {
  const TemporaryDirectory directory;
  auto file = AtomicFile::Create(directory / "s.jsonl");
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(AppendSchedule("train-gpt", OneOp("train"), file->get()).ok());
  ASSERT_TRUE(AppendSchedule("train-gpt", OneOp("validate"), file->get()).ok());
  ASSERT_TRUE((*file)->Commit().ok());
  for (const std::string key : {"train", "validate"}) {
    sim::ScheduleReader reader({.file = "s.jsonl", .key = key});
    ASSERT_TRUE(reader.Append(ReadWhole(directory / "s.jsonl")).ok());
    const absl::StatusOr<sim::FileSchedule> schedule = reader.Finish();
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    EXPECT_EQ(schedule->key, key);
    EXPECT_EQ(schedule->tensors[0].name, "weight");
  }
}

TEST(TraceFileTest, HasATrackPerNameIntervalsAndCounters) {
  const TemporaryDirectory directory;
  auto trace = TraceFile::Create(directory / "t.json");
  ASSERT_TRUE(trace.ok()) << trace.status();
  const auto now = std::chrono::steady_clock::now();
  const auto later = now + std::chrono::microseconds(1500);
  (*trace)->Add({.track = "hbm-dram in", .name = "we\"ight\xff", .begin = now, .end = later});
  (*trace)->Add({.track = "stall", .name = "forward", .begin = now, .end = now});
  (*trace)->Add({.track = "hbm-dram in", .name = "other", .begin = later, .end = later});
  (*trace)->AddCounters("resident", later, {{"hbm", 7}, {"dram", 9}});
  EXPECT_THAT(directory.Names(), IsEmpty());
  ASSERT_TRUE((*trace)->Finish().ok());
  EXPECT_THAT(directory.Names(), ElementsAre("t.json"));
  const Json events = Json::parse(ReadWhole(directory / "t.json"))["traceEvents"];
  ASSERT_EQ(events.size(), 7u);
  EXPECT_EQ(events[0]["args"]["name"], "hbm-dram in");
  EXPECT_EQ(events[1]["ph"], "X");
  EXPECT_NEAR(events[1]["dur"].get<double>(), 1500, 0.01);
  EXPECT_EQ(events[2]["args"]["name"], "stall");
  EXPECT_NE(events[3]["tid"], events[1]["tid"]);
  EXPECT_EQ(events[4]["tid"], events[1]["tid"]);
  EXPECT_EQ(events[6]["args"]["hbm"], 7);
}

TEST(TraceFileTest, IntervalsThatOverlapAreOnTracksOfTheirOwn) {
  const TemporaryDirectory directory;
  auto trace = TraceFile::Create(directory / "t.json");
  ASSERT_TRUE(trace.ok()) << trace.status();
  const auto zero = std::chrono::steady_clock::now();
  const auto add = [&](int begin, int end) {
    (*trace)->Add({.track = "hbm-dram in",
                   .name = "x",
                   .begin = zero + std::chrono::milliseconds(begin),
                   .end = zero + std::chrono::milliseconds(end)});
  };
  add(0, 10);
  add(5, 15);   // second interval, beside the first
  add(10, 20);  // third interval, after the first
  add(4, 12);   // interval reported late, beside the first two
  ASSERT_TRUE((*trace)->Finish().ok());
  std::vector<std::string> tracks;
  std::vector<int> numbers;
  const Json events = Json::parse(ReadWhole(directory / "t.json"))["traceEvents"];
  for (const Json& event : events) {
    if (event["ph"] == "M") tracks.push_back(event["args"]["name"]);
    if (event["ph"] == "X") numbers.push_back(event["tid"]);
  }
  EXPECT_THAT(tracks, ElementsAre("hbm-dram in", "hbm-dram in (2)", "hbm-dram in (3)"));
  EXPECT_THAT(numbers, ElementsAre(1, 2, 1, 3));
}

}  // namespace
}  // namespace sluice::tools
