#include "tests/tools/lab/lab_run.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/file_size_limit.h"
#include "tests/tools/command.h"

namespace sluice::tools {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(LabRunTest, TellsProgramsALinePerPolicy) {
  const TemporaryDirectory directory;
  std::vector<Json> lines =
      JsonOf(LabRun(directory.Write("s", kWriteTwo),
                    SmallMachine({"--policy", "lru,min", "--prefetch-ops=0", "--json"})));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1]["policy"], "min");
  EXPECT_GT(lines[0]["sim_s"], 0);
  EXPECT_GT(lines[0]["page_events"], 0);
  lines[0].erase("sim_s");
  lines[0].erase("page_events");
  EXPECT_NEAR(lines[0]["savings"]["hbm-dram"], (2 - 2 / 1.1) / 4, 1e-9);
  lines[0]["savings"].erase("hbm-dram");
  // Each op waits a second for the other's page to leave and one for its own to come. In dram a
  // page has its old slot until the new one is written. Both directions at once would do, and a
  // tenth of a frame is none.
  EXPECT_EQ(lines[0], Json::parse(R"({"policy": "lru", "schedule": "two", "page_bytes": 4096,
      "time_s": 6.0, "compute_s": 2.0, "time_over_compute": 3.0, "stall_s": 4.0,
      "last_change": 0.0,
      "bound_s": 4.0, "time_over_bound": 1.5, "binds": "hbm-dram window",
      "bounds": {"compute": 2.0, "window": 4.0,
                 "hbm-dram": {"volume": 2.0, "window": 4.0,
                              "in_bytes": 8192, "out_bytes": 4096}},
      "savings": {"hbm": 0.0},
      "op_stall_s": {"p50": 2.0, "p99": 2.0, "max": 2.0},
      "links": {"hbm-dram": {"in_bytes": 8192, "out_bytes": 8192,
                             "busy_in": 0.3333333333333333, "busy_out": 0.3333333333333333}},
      "tiers": {"hbm": {"budget_bytes": 4096, "peak_bytes": 4096,
                        "pages_back": 2, "pages_back_in_place": 2},
                "dram": {"peak_bytes": 12288}}})"));
}

TEST(LabRunTest, WithoutPoliciesItComparesThePlanWithTheOptimumAndLru) {
  const TemporaryDirectory directory;
  const std::string file = directory.Write("s", kWriteTwo);
  const auto policies = [&](const Words& more) {
    Words words = LabRun(file, SmallMachine({"--json"}));
    words.insert(words.end(), more.begin(), more.end());
    std::vector<std::string> names;
    for (const Json& line : JsonOf(words)) names.push_back(line["policy"]);
    return names;
  };
  EXPECT_THAT(policies({}), ElementsAre("planned", "min", "lru"));
  EXPECT_THAT(policies({"--objective", "traffic"}), ElementsAre("planned"));
}

double LinkBytes(const Json& run) {
  double bytes = 0;
  for (const auto& [name, link] : run["links"].items()) {
    bytes += link["in_bytes"].get<double>() + link["out_bytes"].get<double>();
  }
  return bytes;
}

TEST(LabRunTest, ObjectiveTrafficNeverMovesMore) {
  const std::vector<Words> schedules = {
      {kTraining}, {kStreaming, "--key", "prefill"}, {kStreaming, "--key", "decode"}, {kOffload}};
  for (const Words& schedule : schedules) {
    Words words = LabRun(schedule.front(), LargeMachine({"--policy", "planned", "--json"}));
    words.insert(words.end(), schedule.begin() + 1, schedule.end());
    const double time = LinkBytes(JsonOf(words).at(0));
    words.insert(words.end(), {"--objective", "traffic"});
    const double traffic = LinkBytes(JsonOf(words).at(0));
    EXPECT_LE(traffic, time) << schedule.back();
    if (schedule.front() == kTraining) {
      EXPECT_LT(traffic, 0.9 * time);
    }
  }
}

/// Both pages are written in turn; each lies on a drive of its own, but neither waits for the
/// other.
TEST(LabRunTest, SeveralPathsAreToldOneByOne) {
  const TemporaryDirectory directory;
  const std::string file = directory.Write("s", kWriteTwo);
  Words words = {"--tiers=hbm=4KiB",
                 "--link=hbm-nvme=4096B/s,1s",
                 "--link=hbm-nvme=2048B/s",
                 "--page=4KiB",
                 "--policy=lru",
                 "--prefetch-ops=0"};
  const Words text = LabRun(file, words);
  words.push_back("--json");
  // A page takes 2 s over either path: it goes over the first, and comes back over it.
  const Json line = JsonOf(LabRun(file, words))[0];
  EXPECT_NEAR(line["time_s"], 10, 1e-9);
  EXPECT_EQ(line["nvme_written_bytes"], 8192);
  const Json& link = line["links"]["hbm-nvme"];
  EXPECT_EQ(link["out_bytes"], 8192);
  EXPECT_NEAR(link["busy_out"], 0.2 * 2 / 3, 1e-9) << "two seconds of two thirds of the link";
  ASSERT_EQ(link["paths"].size(), 2u);
  EXPECT_EQ(link["paths"][0]["in_bytes"], 8192);
  EXPECT_NEAR(link["paths"][0]["busy_in"], 0.2, 1e-9);
  EXPECT_EQ(link["paths"][1], Json::parse(R"({"in_bytes": 0, "out_bytes": 0,
                                              "busy_in": 0.0, "busy_out": 0.0})"));
  Command command(text);
  ASSERT_EQ(command.Wait(), 0) << command.errors();
  EXPECT_THAT(command.output(),
              AllOf(HasSubstr("  hbm-nvme       in 6 KiB/s, out 6 KiB/s, latency 1e+06 us\n"
                              "    path 1       in 4 KiB/s, out 4 KiB/s, latency 1e+06 us\n"
                              "    path 2       in 2 KiB/s, out 2 KiB/s, latency 0 us\n"),
                    HasSubstr("  hbm-nvme       in 8 KiB, busy 13 %; out 8 KiB, busy 13 %\n"
                              "    path 1       in 8 KiB, busy 20 %; out 8 KiB, busy 20 %\n"
                              "    path 2       in 0 B, busy 0 %; out 0 B, busy 0 %\n")));
}

TEST(LabRunTest, PathsThatAreAsFastTogetherTakeHardlyLonger) {
  const auto run = [](const Words& links) {
    Words words = {"--tiers=hbm=8GiB,dram=24GiB",
                   "--link=hbm-dram=15.754GiB/s,50us",
                   "--page=16MiB",
                   "--policy=planned",
                   "--json"};
    words.insert(words.end(), links.begin(), links.end());
    return JsonOf(LabRun(kOffload, words))[0];
  };
  const Json one = run({"--link=dram-nvme=3.2GiB/s,50us"});
  const Json even = run({"--link=dram-nvme=1.6GiB/s,50us", "--link=dram-nvme=1.6GiB/s,50us"});
  const Json uneven = run({"--link=dram-nvme=2.4GiB/s,50us", "--link=dram-nvme=0.8GiB/s,50us"});
  EXPECT_FALSE(one["links"]["dram-nvme"].contains("paths"));
  for (const Json& several : {even, uneven}) {
    EXPECT_NEAR(several["time_s"], one["time_s"], 0.05 * one["time_s"].get<double>());
    EXPECT_NEAR(several["bound_s"], one["bound_s"], 1e-6);
    EXPECT_NEAR(several["savings"]["dram-nvme"], one["savings"]["dram-nvme"], 1e-6);
    EXPECT_EQ(several["links"]["dram-nvme"]["paths"].size(), 2u);
  }
  const Json& paths = uneven["links"]["dram-nvme"]["paths"];
  for (const std::string bytes : {"in_bytes", "out_bytes"}) {
    EXPECT_NEAR(paths[0][bytes].get<double>() / paths[1][bytes].get<double>(), 3, 0.3) << bytes;
  }
}

TEST(LabRunTest, NoByteTooManyCrossesALinkThatBinds) {
  for (const char* tiers : {"--tiers=hbm=10GiB", "--tiers=hbm=6GiB"}) {
    const Json run = JsonOf(
        LabRun(kTraining, {tiers, "--link=hbm-dram=6.4GiB/s", "--policy=planned", "--json"}))[0];
    const Json& least = run["bounds"]["hbm-dram"];
    const Json& moved = run["links"]["hbm-dram"];
    EXPECT_LT(run["time_over_bound"], 1.02) << tiers;
    EXPECT_LT(moved["in_bytes"].get<double>() / least["in_bytes"].get<double>(), 1.05) << tiers;
    EXPECT_LT(moved["out_bytes"].get<double>() / least["out_bytes"].get<double>(), 1.05) << tiers;
  }
}

TEST(LabRunTest, OnlyPlannersHaveAnObjective) {
  const TemporaryDirectory directory;
  const std::string schedule = directory.Write("s", kWriteTwo);
  EXPECT_THAT(UserError(LabRun(
                  schedule, SmallMachine({"--objective", "traffic", "--policy", "planned,lru"}))),
              HasSubstr("--objective traffic: policy lru makes no plans, so it has no choice; use "
                        "--policy planned"));
  EXPECT_THAT(UserError(LabRun(schedule, SmallMachine({"--objective", "space"}))),
              HasSubstr("--objective: \"space\" is neither time nor traffic"));
}

/// Share of the pages that find their frame again, once home frames have settled.
double ShareInPlace(const Words& schedule, const std::string& hbm, const std::string& link) {
  Words words = LabRun(schedule.front(),
                       {"--tiers=hbm=" + hbm,
                        "--link=hbm-dram=" + link + ",50us",
                        "--page=16MiB",
                        "--iterations=24",
                        "--policy=planned",
                        "--json"});
  words.insert(words.end(), schedule.begin() + 1, schedule.end());
  const Json tier = JsonOf(words).at(0)["tiers"]["hbm"];
  return tier["pages_back_in_place"].get<double>() / tier["pages_back"].get<double>();
}

TEST(LabRunTest, PagesOfAPlanComeToFindTheirFrames) {
  EXPECT_GT(ShareInPlace({kTraining}, "12GiB", "15.754GiB/s"), 0.95) << "0.71 without home frames";
  EXPECT_GT(ShareInPlace({kTraining}, "12GiB", "50GiB/s"), 0.72) << "0.50 without home frames";
  EXPECT_GT(ShareInPlace({kTraining}, "6GiB", "15.754GiB/s"), 0.85) << "a quarter of what is live";
  EXPECT_GT(ShareInPlace({kTraining}, "6GiB", "50GiB/s"), 0.84) << "a quarter of what is live";
}

TEST(LabRunTest, PagesOfStreamedLayersFindTheirFrames) {
  for (const char* key : {"prefill", "decode"}) {
    for (const char* hbm : {"36GiB", "18GiB"}) {
      EXPECT_GE(ShareInPlace({kStreaming, "--key", key}, hbm, "50GiB/s"), 0.95) << key << hbm;
    }
  }
}

TEST(LabRunTest, TellsPeopleTheSame) {
  const TemporaryDirectory directory;
  Command command(
      LabRun(directory.Write("s", kWriteTwo), SmallMachine({"--policy=lru", "--prefetch-ops=0"})));
  ASSERT_EQ(command.Wait(), 0) << command.errors();
  EXPECT_THAT(
      command.output(),
      AllOf(StartsWith("two: 2 ops, 2 tensors, pages of 4 KiB\n"),
            HasSubstr("hbm            4 KiB\n"),
            HasSubstr("dram           as much as is needed\n"),
            HasSubstr("hbm-dram       in 4 KiB/s, out 4 KiB/s, latency 0 us\n"),
            HasSubstr("  bound          4.000 s\n"),
            HasSubstr("\nlru: 6.000 s, 3.0000 x compute (2.000 s), 1.500 x bound\n"),
            HasSubstr("stall          4.000 s; by op p50 2000.000 ms, p99 2000.000 ms, max "
                      "2000.000 ms (op 3 f)\n"),
            HasSubstr("hbm-dram       in 8 KiB, busy 33 %; out 8 KiB, busy 33 %\n"),
            HasSubstr("hbm            peak 4 KiB; 100.0 % of pages come back to their frame\n"),
            HasSubstr("dram           peak 12 KiB\n"),
            HasSubstr("page events/s\n"),
            EndsWith("\n\nbound by hbm-dram (windows); +10 % hbm-dram would save 4.5 %\n")));
  EXPECT_EQ(command.errors(), "");
}

TEST(LabRunTest, TheMachineIsTheOneThatIsGiven) {
  const TemporaryDirectory directory;
  const std::string file = directory.Write("s", kWriteTwo);
  const auto time = [&](const std::string& schedule, const std::string& link, const Words& more) {
    Words words = {
        "--link=hbm-dram=" + link, "--page=4KiB", "--policy=lru", "--prefetch-ops=0", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return JsonOf(LabRun(schedule, words))[0]["time_s"].get<double>();
  };
  const std::string one_page = "--tiers=hbm=4KiB";
  EXPECT_NEAR(time(file, "4096B/s/2048B/s", {one_page}), 8, 1e-9);
  EXPECT_NEAR(time(file, "4096B/s,500ms", {one_page}), 8, 1e-9);
  // Page-ins wait for page-outs here, so a half-duplex link changes nothing.
  EXPECT_NEAR(time(file, "4096B/s,half", {one_page}), 6, 1e-9);
  // Two pages at once, of which the second comes within the latency of the first.
  std::string text = kWriteTwo;
  for (std::size_t at; (at = text.find("4096")) != std::string::npos;) {
    text.replace(at, 4, "8192, \"home\": \"file\"");
  }
  for (const std::string writes : {"\"writes\": [0]", "\"writes\": [1]"}) {
    text.replace(text.find(writes), writes.size(), "\"writes\": []");
  }
  const std::string two_pages = directory.Write("two", text);
  EXPECT_NEAR(time(two_pages, "4096B/s,500ms", {"--tiers=hbm=8KiB"}), 7, 1e-9);
  EXPECT_NEAR(time(two_pages, "4096B/s,500ms", {"--tiers=hbm=8KiB", "--serial"}), 8, 1e-9);
}

TEST(LabRunTest, OpsWithoutTimeAndRunsWithoutStalls) {
  const TemporaryDirectory directory;
  std::string text = kWriteTwo;
  for (std::size_t at; (at = text.find("\"seconds\": 1")) != std::string::npos;) {
    text.replace(at, 12, "\"seconds\": 0");
  }
  const std::string file = directory.Write("s", text);
  const Words machine = {"--tiers=hbm=8KiB", "--link=hbm-nvme=4096B/s", "--page=4KiB"};
  Words json = machine;
  json.push_back("--json");
  for (const Json& line : JsonOf(LabRun(file, json))) {
    EXPECT_EQ(line["time_s"], 0);
    EXPECT_FALSE(line.contains("time_over_compute"));
    EXPECT_FALSE(line.contains("time_over_bound"));
    EXPECT_EQ(line["binds"], "compute");
    EXPECT_EQ(line["links"]["hbm-nvme"]["busy_in"], 0);
    EXPECT_EQ(line["nvme_written_bytes"], 0);
    EXPECT_EQ(line.dump().find("null"), std::string::npos);
  }
  Command command(LabRun(file, machine));
  ASSERT_EQ(command.Wait(), 0) << command.errors();
  EXPECT_THAT(command.output(),
              AllOf(HasSubstr("\nmin: 0.000 s\n"),
                    HasSubstr("stall          none\n"),
                    EndsWith("\n\nbound by compute\n")));
  EXPECT_THAT(command.output(), Not(HasSubstr("nan")));
}

/// The machine of ZeRO-Offload: states live in dram, where they are updated, and there is no nvme.
TEST(LabRunTest, StatesAreUpdatedInALastTierOfDram) {
  const Words flags = {"--tiers=hbm=8GiB,dram=72GiB",
                       "--link=hbm-dram=15GiB/s,50us",
                       "--iterations=8",
                       "--page=16MiB",
                       "--json"};
  const std::vector<Json> lines = JsonOf(LabRun(kOffload, flags));
  ASSERT_EQ(lines.size(), 3u);
  for (const Json& line : lines) {
    SCOPED_TRACE(line.dump());
    EXPECT_GE(line["time_over_bound"], 1);
    EXPECT_LE(line["tiers"]["dram"]["peak_bytes"], std::uint64_t{72} << 30);
    EXPECT_EQ(line["links"].size(), 1u);
    EXPECT_LT(line["last_change"], 0.005);
  }
  EXPECT_LE(lines[0]["time_over_bound"], lines[2]["time_over_bound"]) << "planned beats lru";
}

TEST(LabRunTest, ShippedSchedulesRunUnderTheirPolicies) {
  struct Case {
    std::string file;
    std::string key;
  };
  for (const Case& one : {Case{kTraining, "train"},
                          Case{kOffload, "train"},
                          Case{kStreaming, "decode"},
                          Case{kStreaming, "prefill"}}) {
    const std::vector<Json> lines =
        JsonOf(LabRun(one.file, LargeMachine({"--key", one.key, "--json", "--policy=min,lru,2q"})));
    ASSERT_EQ(lines.size(), 3u) << one.file;
    for (const Json& line : lines) {
      SCOPED_TRACE(line.dump());
      EXPECT_EQ(line["key"], one.key);
      EXPECT_GE(line["time_s"], line["compute_s"]);
      EXPECT_GE(line["time_over_compute"], 1);
      EXPECT_GE(line["bound_s"], line["bounds"]["compute"]);
      EXPECT_GE(line["time_over_bound"], 0.99) << "a short run may borrow from the one before";
      for (const auto& [name, link] : line["links"].items()) {
        EXPECT_LE(link["busy_in"], 1.0001) << name;
        EXPECT_LE(link["busy_out"], 1.0001) << name;
      }
      for (const auto& [name, tier] : line["tiers"].items()) {
        if (tier.contains("budget_bytes")) {
          EXPECT_LE(tier["peak_bytes"], tier["budget_bytes"]) << name;
        }
      }
      EXPECT_EQ(line["nvme_written_bytes"], line["links"]["dram-nvme"]["out_bytes"]);
    }
  }
}

TEST(LabRunTest, ATimelineThatMayNotGrowIsAnErrorAndLeavesNothing) {
  const TemporaryDirectory directory;
  Words words = LabRun(kTraining, LargeMachine({"--policy=lru", "--trace", directory / "t"}));
  const sluice::testing::FileSizeLimit limit(4096);
  Command command(words);
  EXPECT_EQ(command.Wait(), 3);
  EXPECT_THAT(
      command.errors(),
      AllOf(HasSubstr(directory / "t"), HasSubstr("the limit of file sizes is 4096 bytes")));
  EXPECT_THAT(directory.Names(), ElementsAre());
}

/// The first iteration is only recorded, so the second one is another.
TEST(LabRunTest, ARunThatHasNotSettledSaysSo) {
  const Words words = {"--tiers=hbm=12GiB", "--link=hbm-dram=15GiB/s", "--policy=planned"};
  const auto run = [&](const Words& more) {
    Words all = words;
    all.insert(all.end(), more.begin(), more.end());
    return LabRun(kTraining, all);
  };
  const auto text = [&](const Words& more) {
    Command command(run(more));
    EXPECT_EQ(command.Wait(), 0);
    return command.output();
  };
  EXPECT_GT(JsonOf(run({"--iterations=2", "--json"}))[0]["last_change"], 0.1);
  EXPECT_THAT(text({"--iterations=2"}), HasSubstr("not settled"));
  EXPECT_NEAR(JsonOf(run({"--iterations=6", "--json"}))[0]["last_change"], 0, 0.005);
  EXPECT_THAT(text({"--iterations=6"}), Not(HasSubstr("not settled")));
}

// --- what is wrong ------------------------------------------------------------------------------

TEST(LabRunTest, WrongFlagsSayWhatIsRight) {
  const TemporaryDirectory directory;
  const std::string file = directory.Write("s", kWriteTwo);
  const auto error = [&](const Words& more) { return UserError(LabRun(file, SmallMachine(more))); };
  EXPECT_THAT(UserError({"lab", "run"}), HasSubstr("SCHEDULE is required: name a file"));
  EXPECT_THAT(UserError({"lab", "run", file}), HasSubstr("--tiers is required, as hbm=40GiB"));
  EXPECT_THAT(UserError({"lab", "run", file, "--tiers=hbm=1GiB,dram=1GiB"}),
              HasSubstr("--link hbm-dram=IN is missing"));
  EXPECT_THAT(error({"--policy=lruu"}), AllOf(HasSubstr("--policy: "), HasSubstr("lruu")));
  EXPECT_THAT(error({"--policy=lru,min,lru"}), HasSubstr("--policy: lru is named twice"));
  EXPECT_THAT(error({"--policy="}), HasSubstr("--policy"));
  EXPECT_THAT(error({"--policy=lru,"}), HasSubstr("--policy: "));
  for (const std::string number : {"1", "1001", "x", "3x", "-3", ""}) {
    EXPECT_THAT(error({"--iterations=" + number}), HasSubstr("--iterations")) << number;
  }
  EXPECT_THAT(error({"--iterations=1"}), HasSubstr("\"1\" is not a whole number from 2 to 1000"));
  EXPECT_THAT(error({"--prefetch-ops=-1"}),
              HasSubstr("--prefetch-ops: \"-1\" is not a whole number"));
  EXPECT_THAT(error({"--key=x"}), HasSubstr("holds no schedule of key \"x\""));
  EXPECT_THAT(error({"--seriel"}), HasSubstr("did you mean \"--serial\"?"));
  EXPECT_THAT(error({"--trace", directory / "t"}),
              HasSubstr("--trace: a timeline shows one policy"));
  EXPECT_THAT(error({"--policy=lru", "--trace=-"}), HasSubstr("standard output is /dev/stdout"));
  EXPECT_THAT(error({"--policy=lru", "--trace", file}), HasSubstr("would replace what SCHEDULE"));
  EXPECT_THAT(error({"--policy=lru", "--trace", directory / "no/t"}), HasSubstr("--trace"));
  EXPECT_THAT(directory.Names(), ElementsAre("s"));
}

TEST(LabRunTest, SchedulesThatCannotRunSayWhy) {
  const TemporaryDirectory directory;
  const std::string bad = directory.Write("bad", std::string(kWriteTwo) + "{\"op\": 9}\n");
  EXPECT_THAT(UserError(LabRun(bad, SmallMachine({}))), HasSubstr(bad + ":6: op 9: the field"));
  EXPECT_THAT(UserError(LabRun(directory / "none", SmallMachine({}))), HasSubstr("does not exist"));
  std::string text = kWriteTwo;
  text.replace(text.find("\"bytes\": 4096"), 13, "\"bytes\": 4097");
  const std::string large = directory.Write("large", text);
  const std::string trace = directory / "t";
  EXPECT_EQ(
      UserError(LabRun(large, SmallMachine({"--policy=lru", "--trace", trace}))),
      "sluice: " + large +
          ": op 3 (f, line 4) needs 2 pages of 4 KiB at once in hbm, where an op can have 1: give "
          "hbm 4 KiB more\n");
  EXPECT_THAT(directory.Names(), ElementsAre("bad", "large"));
  const std::string file = directory.Write("s", kWriteTwo);
  EXPECT_THAT(UserError(LabRun(
                  file, {"--tiers=hbm=4KiB,nvme=8KiB", "--link=hbm-nvme=1GiB/s", "--page=4KiB"})),
              HasSubstr("what persists needs 2 pages of 4 KiB in nvme, which has room for 0"));
  EXPECT_THAT(
      UserError(LabRun(kStreaming, {"--tiers=hbm=64GiB", "--link=hbm-dram=1GiB/s", "--page=4KiB"})),
      HasSubstr("give a larger --page"));
}

TEST(LabRunTest, AFileThatNobodyTrustsActsOnNoTerminal) {
  const TemporaryDirectory directory;
  std::string text = kWriteTwo;
  text.replace(text.find("\"two\""), 5, "\"\\u001b[31mx\"");
  text.replace(text.find("\"f\""), 3, "\"\\u0007\"");
  const std::string file = directory.Write("s", text);
  Command command(LabRun(file, SmallMachine({"--policy=lru", "--prefetch-ops=0"})));
  ASSERT_EQ(command.Wait(), 0) << command.errors();
  EXPECT_THAT(command.output(), StartsWith("?[31mx:"));
  EXPECT_EQ(command.output().find_first_of("\x1b\x07"), std::string::npos);
  text.replace(text.find("\"bytes\": 4096"), 13, "\"bytes\": 4097");
  const std::string error = UserError(LabRun(directory.Write("l", text), SmallMachine({})));
  EXPECT_EQ(error.find_first_of("\x1b\x07"), std::string::npos);
}

TEST(LabRunTest, Help) {
  Command command({"lab", "run", "--help"});
  EXPECT_EQ(command.Wait(), 0);
  EXPECT_THAT(command.output(), HasSubstr("Usage: sluice lab run SCHEDULE"));
  EXPECT_THAT(command.output(), HasSubstr("NAME=IN[/OUT][/BOTH][,LATENCY][,half]"));
}

}  // namespace
}  // namespace sluice::tools
