#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/project_paths.h"
#include "tests/tools/command.h"

namespace sluice::tools {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kZero = testing::ProjectFile("workloads/schedules/zero-offload-adam.jsonl");
const std::string kStream =
    testing::ProjectFile("workloads/schedules/layer-streaming-inference.jsonl");

constexpr const char* kSmall = R"({"schedule": "small", "key": "k"}
{"tensor": 0, "bytes": 5000, "persistent": true, "kind": "parameter"}
{"tensor": 1, "bytes": 100, "persistent": false, "kind": "activation"}
{"op": 7, "name": "l0.f", "seconds": 1, "reads": [0], "writes": [1]}
{"op": 8, "name": "l1.f", "seconds": 0.5, "reads": [[0, 0, 1000], 1], "writes": []}
)";

std::vector<Json> ParseShown(const std::string& text) {
  std::vector<Json> lines;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    lines.push_back(Json::parse(text.substr(begin, end - begin)));
  }
  EXPECT_EQ(begin, text.size()) << "the last line ends";
  return lines;
}

std::string UserError(const std::vector<std::string>& words) {
  Command command(words);
  EXPECT_EQ(command.Wait(), 2) << command.errors();
  EXPECT_EQ(command.output(), "");
  return command.errors();
}

TEST(LabShowTest, TellsPeopleWhatAScheduleAsksFor) {
  const TemporaryDirectory directory;
  Command command({"lab", "show", directory.Write("s", kSmall)});
  ASSERT_EQ(command.Wait(), 0) << command.errors();
  EXPECT_THAT(command.output(),
              AllOf(StartsWith("small, key \"k\": 2 ops, 2 tensors\n"),
                    HasSubstr("compute        1.500 s\n"),
                    HasSubstr("persistent     4.88 KiB\n"),
                    HasSubstr("peak live      4.98 KiB, at op 7 (l0.f)\n"),
                    HasSubstr("largest op     4.98 KiB, op 7 (l0.f)\n"),
                    HasSubstr("\nl*.f  "),
                    HasSubstr("of 5.96 KiB used again")));
  EXPECT_EQ(command.errors(), "");
}

TEST(LabShowTest, TellsProgramsALinePerThing) {
  const TemporaryDirectory directory;
  Command command({"lab", "show", "--json", directory.Write("s", kSmall)});
  ASSERT_EQ(command.Wait(), 0) << command.errors();
  const std::vector<Json> lines = ParseShown(command.output());
  std::vector<std::string> sections;
  for (const Json& line : lines) sections.push_back(line["section"]);
  EXPECT_THAT(sections,
              ElementsAre("schedule",
                          "kind",
                          "kind",
                          "lane",
                          "group",
                          "reuse",
                          "reuse",
                          "reuse",
                          "reuse",
                          "reuse",
                          "reuse",
                          "reuse"));
  Json schedule = lines[0];
  schedule.erase("file");
  EXPECT_EQ(schedule, Json::parse(R"({"section": "schedule", "schedule": "small", "key": "k",
      "ops": 2, "tensors": 2, "compute_s": 1.5, "persistent_bytes": 5000, "peak_live_bytes": 5100,
      "peak_live_op": 7, "peak_live_op_name": "l0.f", "working_set_bytes": 5100,
      "working_set_op": 7, "working_set_op_name": "l0.f", "read_bytes": 6100,
      "written_bytes": 100, "untouched_tensors": 0, "unwritten_tensors": 0})"));
  EXPECT_EQ(lines[4], Json::parse(R"({"section": "group", "group": "l*.f", "ops": 2,
      "compute_s": 1.5, "read_bytes": 6100, "written_bytes": 100,
      "read_bytes_by_kind": {"parameter": 6000, "activation": 100},
      "written_bytes_by_kind": {"activation": 100}, "peak_live_bytes": 5100,
      "working_set_bytes": 5100, "reused_bytes": 6100, "reuse": [
        {"share": 0.5, "distance_bytes": 5200}, {"share": 0.9, "distance_bytes": 5200},
        {"share": 1.0, "distance_bytes": 5200}]})"));
  // 1100 bytes are used again when nothing else was, 5000 after the 1100 of the second op.
  EXPECT_EQ(lines[5]["distance_bytes"], 1100);
  EXPECT_EQ(lines.back(),
            Json::parse(R"({"section": "reuse", "share": 1.0, "distance_bytes": 5200})"));
}

TEST(LabShowTest, CountsWholePagesWhereAsked) {
  const TemporaryDirectory directory;
  Command command({"lab", "show", directory.Write("s", kSmall), "--page=4KiB", "--json"});
  ASSERT_EQ(command.Wait(), 0) << command.errors();
  const Json schedule = ParseShown(command.output())[0];
  EXPECT_EQ(schedule["page_bytes"], 4096);
  EXPECT_EQ(schedule["persistent_bytes"], 8192);
  EXPECT_EQ(schedule["peak_live_bytes"], 12288);
  EXPECT_EQ(schedule["read_bytes"], 8192 + 4096 + 4096);
}

TEST(LabShowTest, TheKeyChooses) {
  Command command({"lab", "show", kStream, "--key", "decode", "--json"});
  ASSERT_EQ(command.Wait(), 0) << command.errors();
  const Json schedule = ParseShown(command.output())[0];
  EXPECT_EQ(schedule["key"], "decode");
  EXPECT_EQ(schedule["ops"], 98);
  EXPECT_THAT(UserError({"lab", "show", kStream, "--key", "x"}),
              HasSubstr("holds no schedule of key \"x\"; there are \"decode\", \"prefill\""));
}

TEST(LabShowTest, LanesAreTold) {
  Command command({"lab", "show", kZero, "--json"});
  ASSERT_EQ(command.Wait(), 0) << command.errors();
  std::vector<std::string> lanes;
  for (const Json& line : ParseShown(command.output())) {
    if (line["section"] == "lane") lanes.push_back(line["lane"]);
  }
  EXPECT_THAT(lanes, ElementsAre("cpu", "gpu"));
}

TEST(LabShowTest, AFileThatNobodyTrustsActsOnNoTerminal) {
  const TemporaryDirectory directory;
  std::string text = kSmall;
  text.replace(text.find("small"), 5, "\\u001b[31mx");
  text.replace(text.find("l1.f"), 4, "\\u0007");
  Command command({"lab", "show", directory.Write("s", text)});
  ASSERT_EQ(command.Wait(), 0) << command.errors();
  EXPECT_THAT(command.output(), StartsWith("?[31mx, key"));
  EXPECT_EQ(command.output().find_first_of("\x1b\x07"), std::string::npos);
}

TEST(LabShowTest, UserErrorsSayWhatToDo) {
  const TemporaryDirectory directory;
  const std::string file = directory.Write("s", kSmall);
  EXPECT_THAT(UserError({"lab", "show"}), HasSubstr("SCHEDULE is required"));
  EXPECT_THAT(UserError({"lab", "show", file, file}), HasSubstr("belongs to no flag"));
  EXPECT_THAT(UserError({"lab", "show", file, "--kee=x"}), HasSubstr("did you mean \"--key\"?"));
  EXPECT_THAT(UserError({"lab", "show", file, "--page", "3KiB"}),
              HasSubstr("--page: 3 KiB is no page size; give a power of two from 4KiB to 64MiB"));
  EXPECT_THAT(UserError({"lab", "show", file, "--page", "128MiB"}), HasSubstr("no page size"));
  EXPECT_THAT(UserError({"lab", "show", directory / "none"}), HasSubstr("none does not exist"));
  EXPECT_THAT(UserError({"lab", "show", directory.path()}), HasSubstr("is a directory"));
  const std::string bad = directory.Write("bad", std::string(kSmall) + "{\"op\": 9}\n");
  EXPECT_EQ(UserError({"lab", "show", bad}),
            "sluice: " + bad + ":6: op 9: the field \"seconds\" is missing; add it\n");
  EXPECT_THAT(UserError({"lab", "shwo"}), HasSubstr("did you mean \"show\"?"));
  EXPECT_THAT(UserError({"lab"}), HasSubstr("Usage: sluice lab SUB-COMMAND"));
}

TEST(LabShowTest, HelpStatesTheRuleOfGroups) {
  Command command({"lab", "show", "--help"});
  EXPECT_EQ(command.Wait(), 0);
  EXPECT_THAT(command.output(),
              AllOf(HasSubstr("Usage: sluice lab show SCHEDULE"), HasSubstr("\"l*.mlp\"")));
}

}  // namespace
}  // namespace sluice::tools
