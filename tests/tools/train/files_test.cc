#include <algorithm>
#include <chrono>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/tools/temporary_directory.h"
#include "tools/train/busy_time.h"
#include "tools/train/record_file.h"
#include "tools/train/trace_file.h"

namespace sluice::tools {
namespace {

using Json = nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<Json> ParseLines(const std::string& text) {
  std::vector<Json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(Json::parse(line));
  return lines;
}

Schedule TwoOps() {
  Schedule schedule{.key = "train", .page_bytes = 4096};
  schedule.tensors = {
      {.name = "weight", .kind = TensorKind::kParameter, .bytes = 8192},
      {.name = "stash", .kind = TensorKind::kActivation, .bytes = 100, .segment = 1}};
  const ScheduleAccess stash{.tensor = 1, .range = kWholeTensor, .mode = AccessMode::kOverwrite};
  schedule.ops = {
      {.name = "forward",
       .lane = "gpu",
       .seconds = 0.5,
       .accesses =
           {{.tensor = 0, .range = {0, 8192}, .mode = AccessMode::kRead, .tier = kHbm0},
            {.tensor = 1, .range = kWholeTensor, .mode = AccessMode::kOverwrite, .tier = kHbm0}}},
      {.name = "update",
       .lane = "cpu",
       .accesses = {{.tensor = 0,
                     .range = {4096, UINT64_MAX},
                     .mode = AccessMode::kReadWrite,
                     .tier = kDram0}},
       .discards = {stash}}};
  return schedule;
}

std::string FormatSchedule(const std::string& name, const Schedule& schedule) {
  std::string text;
  EXPECT_TRUE(WriteSchedule(name, schedule, [&text](std::string_view line) {
                EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
                text += line;
                return absl::OkStatus();
              }).ok());
  return text;
}

TEST(RecordFileTest, WritesHeaderTensorsAndOps) {
  const std::vector<Json> lines = ParseLines(FormatSchedule("train-gpt", TwoOps()));
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[0], Json::parse(R"({"schedule":"train-gpt","version":1,"key":"train","ops":2,
                                      "tensors":2,"page_bytes":4096})"));
  EXPECT_EQ(lines[1], Json::parse(R"({"tensor":0,"bytes":8192,"persistent":true,"name":"weight",
                                      "kind":"parameter","segment":0,"home":"store"})"));
  EXPECT_EQ(lines[2]["persistent"], false);
  EXPECT_EQ(lines[3], Json::parse(R"({"op":0,"name":"forward","seconds":0.5,"reads":[0],
                                      "writes":[1]})"));
  EXPECT_EQ(lines[4], Json::parse(R"({"op":1,"name":"update","seconds":0.0,"lane":"cpu",
                                      "tier":"dram","reads":[[0,4096,4096]],
                                      "writes":[[0,4096,4096]]})"));
}

TEST(RecordFileTest, AFileHoldsSeveralSchedules) {
  const TemporaryDirectory directory;
  Schedule validate = TwoOps();
  validate.key = "validate";
  auto file = AtomicFile::Create(directory / "s.jsonl");
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(AppendSchedule("train-gpt", TwoOps(), file->get()).ok());
  ASSERT_TRUE(AppendSchedule("train-gpt", validate, file->get()).ok());
  ASSERT_TRUE((*file)->Commit().ok());
  const std::vector<Json> lines = ParseLines(ReadWhole(directory / "s.jsonl"));
  ASSERT_EQ(lines.size(), 10u);
  EXPECT_EQ(lines[5]["key"], "validate");
}

TEST(RecordFileTest, AnOpInTwoTiersNamesTheExceptions) {
  Schedule schedule = TwoOps();
  schedule.ops[0].accesses[1].tier = kDram0;
  const Json op = ParseLines(FormatSchedule("x", schedule))[3];
  EXPECT_FALSE(op.contains("tier"));
  EXPECT_EQ(op["tiers"], Json::parse(R"({"1":"dram"})"));
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
  add(5, 15);   // beside the first
  add(10, 20);  // after the first
  add(4, 12);   // reported late, beside both
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

TEST(BusyTimeTest, CountsTheUnionWithinTheWindow) {
  const auto zero = std::chrono::steady_clock::time_point();
  const auto at = [&](int milliseconds) { return zero + std::chrono::milliseconds(milliseconds); };
  BusyTime busy;
  EXPECT_DOUBLE_EQ(busy.SecondsWithin({at(0), at(100)}), 0);
  busy.Add({at(50), at(60)});
  busy.Add({at(10), at(20)});
  busy.Add({at(15), at(30)});
  busy.Add({at(12), at(14)});
  EXPECT_NEAR(busy.SecondsWithin({at(0), at(100)}), 0.030, 1e-12);
  EXPECT_NEAR(busy.SecondsWithin({at(25), at(55)}), 0.010, 1e-12);
  for (int i = 0; i < 200'000; ++i) busy.Add({at(200 + i % 7), at(210)});
  EXPECT_NEAR(busy.SecondsWithin({at(0), at(1000)}), 0.040, 1e-12);
  busy.ForgetBefore(at(55));
  EXPECT_NEAR(busy.SecondsWithin({at(0), at(1000)}), 0.020, 1e-12);
}

TEST(BusyTimeTest, ALongRunDoesNotCollect) {
  const auto at = [](int step) {
    return std::chrono::steady_clock::time_point() + std::chrono::milliseconds(step);
  };
  BusyTime busy;
  for (int step = 0; step < 1'000'000; ++step) {
    if (step % 100 == 0) busy.ForgetBefore(at(2 * step));
    busy.Add({at(2 * step), at(2 * step + 1)});
  }
  EXPECT_LE(busy.spans(), 100u);
}

}  // namespace
}  // namespace sluice::tools
