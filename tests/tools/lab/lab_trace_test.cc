#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tools/lab/lab_run.h"

namespace sluice::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

struct Interval {
  double begin = 0;
  double end = 0;
};

struct Timeline {
  std::map<std::string, std::vector<Interval>> tracks;
  std::map<std::string, std::uint64_t> frames_peak;
};

Timeline ReadTimeline(const std::string& path) {
  Timeline timeline;
  std::map<int, std::string> names;
  const Json events = Json::parse(ReadWhole(path))["traceEvents"];
  for (const Json& event : events) {
    const int number = event["tid"];
    if (event["ph"] == "M") names[number] = event["args"]["name"];
    if (event["ph"] == "X") {
      const double begin = event["ts"].get<double>() * 1e-6;
      timeline.tracks[names[number]].push_back({begin, begin + event["dur"].get<double>() * 1e-6});
    }
    if (event["ph"] != "C") continue;
    for (const auto& [tier, frames] : event["args"].items()) {
      std::uint64_t& peak = timeline.frames_peak[tier];
      peak = std::max(peak, frames.get<std::uint64_t>());
    }
  }
  return timeline;
}

/// Busy seconds of the track within the window.
double SecondsIn(const Timeline& timeline, const std::string& track, Interval window) {
  double seconds = 0;
  const auto found = timeline.tracks.find(track);
  if (found == timeline.tracks.end()) return 0;
  for (const Interval& one : found->second) {
    seconds += std::max(0.0, std::min(one.end, window.end) - std::max(one.begin, window.begin));
  }
  return seconds;
}

TEST(LabTraceTest, TheTimelineOfASmallRun) {
  const TemporaryDirectory directory;
  const std::string trace = directory / "t.json";
  JsonOf(LabRun(directory.Write("s", kWriteTwo),
                SmallMachine({"--policy=lru", "--prefetch-ops=0", "--json", "--trace", trace})));
  const Timeline timeline = ReadTimeline(trace);
  std::vector<std::string> tracks;
  for (const auto& [name, intervals] : timeline.tracks) tracks.push_back(name);
  EXPECT_THAT(tracks,
              UnorderedElementsAre(
                  "iterations", "lane gpu", "lane gpu stall", "hbm-dram in", "hbm-dram out"));
  EXPECT_EQ(timeline.tracks.at("iterations").size(), 3u);
  EXPECT_EQ(timeline.tracks.at("lane gpu").size(), 6u);
  EXPECT_EQ(timeline.tracks.at("lane gpu stall").size(), 5u);
  EXPECT_EQ(timeline.tracks.at("hbm-dram in").size(), 4u);
  EXPECT_EQ(timeline.tracks.at("hbm-dram out").size(), 5u);
  EXPECT_EQ(timeline.frames_peak.at("hbm"), 1u);
  EXPECT_THAT(ReadWhole(trace), HasSubstr("\"name\":\"b\""));  // a page is called by its tensor
}

TEST(LabTraceTest, EachPathHasTracksOfItsOwn) {
  const TemporaryDirectory directory;
  const std::string trace = directory / "t.json";
  JsonOf(LabRun(directory.Write("s", kWriteTwo),
                SmallMachine({"--link=hbm-dram=1024B/s",
                              "--policy=lru",
                              "--prefetch-ops=0",
                              "--json",
                              "--trace",
                              trace})));
  const Timeline timeline = ReadTimeline(trace);
  EXPECT_EQ(timeline.tracks.at("hbm-dram path 1 in").size(), 4u);
  EXPECT_EQ(timeline.tracks.at("hbm-dram path 1 out").size(), 5u);
  EXPECT_FALSE(timeline.tracks.contains("hbm-dram in"));
}

TEST(LabTraceTest, TheTimelineAgreesWithTheReport) {
  const TemporaryDirectory directory;
  const std::string trace = directory / "t.json";
  const Json line =
      JsonOf(LabRun(kOffload, LargeMachine({"--policy=min", "--json", "--trace=" + trace})))[0];
  const Timeline timeline = ReadTimeline(trace);
  const Interval last = timeline.tracks.at("iterations").back();
  const double time = line["time_s"];
  EXPECT_NEAR(last.end - last.begin, time, 1e-6);
  double stall = 0;
  for (const std::string lane : {"lane gpu", "lane cpu"}) {
    stall += SecondsIn(timeline, lane + " stall", last);
    EXPECT_EQ(timeline.tracks.at(lane).size() % 3, 0u) << "three iterations";
  }
  EXPECT_NEAR(stall, line["stall_s"], 1e-5);
  for (const std::string link : {"hbm-dram", "dram-nvme"}) {
    // A transfer that is still on the link at the end is not drawn.
    const double page = 16.0 * (1 << 20) / (2.0 * (1 << 30));
    const Json& of_link = line["links"][link];
    EXPECT_NEAR(
        SecondsIn(timeline, link + " in", last), of_link["busy_in"].get<double>() * time, page)
        << link;
    EXPECT_NEAR(
        SecondsIn(timeline, link + " out", last), of_link["busy_out"].get<double>() * time, page)
        << link;
    EXPECT_FALSE(timeline.tracks.contains(link + " in (2)")) << "one transfer at a time";
  }
  const std::uint64_t page_bytes = line["page_bytes"];
  for (const auto& [tier, frames] : timeline.frames_peak) {
    EXPECT_LE(frames * page_bytes, line["tiers"][tier]["peak_bytes"]) << tier;
    EXPECT_GT(frames, 0u) << tier;
  }
}

}  // namespace
}  // namespace sluice::tools
