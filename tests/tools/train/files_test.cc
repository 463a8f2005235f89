#include <chrono>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "runtime/sim/schedule_reader.h"
#include "tests/tools/temporary_directory.h"
#include "tools/trace_file.h"
#include "tools/train/busy_time.h"
#include "tools/train/record_file.h"
#include "tools/train/run_monitor.h"

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

TEST(SpanCollectorTest, WhatComputesOrWaitsMakesNoLinkBusy) {
  const auto now = std::chrono::steady_clock::now();
  const auto later = now + std::chrono::milliseconds(5);
  SpanCollector spans(nullptr);
  for (const char* track : {"stall", "optimizer"}) {
    spans.Add({.track = track, .name = "update", .begin = now, .end = later});
  }
  EXPECT_EQ(spans.busy().spans(), 0u);
  spans.Add({.track = "dram-nvme in", .name = "weight", .begin = now, .end = later});
  EXPECT_EQ(spans.busy().spans(), 1u);
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
