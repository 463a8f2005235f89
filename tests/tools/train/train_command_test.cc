#include "tests/tools/train/train_command.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "workloads/gpt/compute/peak_loop.h"

namespace sluice::tools {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

TEST_F(TrainCommandTest, VerifiesBitForBitAndReportsEveryField) {
  Command command(Words({"--verify", "--json"}));
  ASSERT_EQ(command.Wait(), 0) << command.errors();
  const Json json = Json::parse(command.output());
  EXPECT_EQ(std::count(command.output().begin(), command.output().end(), '\n'), 1);
  EXPECT_EQ(json["steps"], 6);
  EXPECT_EQ(json["verify"]["identical"], true);
  EXPECT_LT(json["val_loss"], json["val_loss_first"]);
  EXPECT_GT(json["verify"]["slowdown"], 0);
  EXPECT_GT(json["verify"]["ram_gflops"], 0);
  EXPECT_GT(json["bound_ms"], 0);
  EXPECT_GT(json["volume_bound_ms"], 0);
  EXPECT_GE(json["bound_ms"], json["volume_bound_ms"]);
  for (const char* link : {"hbm-dram", "dram-nvme"}) {
    EXPECT_GT(json["links"][link]["in_bytes"], 0) << link;
    EXPECT_GT(json["links"][link]["out_bytes"], 0) << link;
    EXPECT_TRUE(json["bound"].contains(link));
  }
  for (const char* tier : {"hbm", "dram", "nvme"}) {
    EXPECT_GT(json["tiers"][tier]["peak_bytes"], 0) << tier;
    EXPECT_LE(json["tiers"][tier]["peak_bytes"], json["tiers"][tier]["budget_bytes"]) << tier;
  }
  EXPECT_GT(json["peak_rss_bytes"], json["live_bytes"]);
  EXPECT_THAT(spill_.Names(), IsEmpty());
}

/// A schedule that is not recorded has no bound. The run succeeds all the same.
TEST_F(TrainCommandTest, WithoutARecordedScheduleThereIsNoBound) {
  const std::string model = files_ / "model.safetensors";
  Command command(
      Words({"--json", "--save", model, "--set", "scheduler.recorded_accesses_max=10"}));
  ASSERT_EQ(command.Wait(), 0) << command.errors();
  const Json json = Json::parse(command.output());
  EXPECT_EQ(json["steps"], 6);
  EXPECT_FALSE(json.contains("bound_ms"));
  EXPECT_FALSE(json.contains("time_over_bound"));
  EXPECT_THAT(command.errors(), HasSubstr("no bound is known: no schedule of key 'train' is kept"));
  EXPECT_TRUE(std::filesystem::exists(model));
}

TEST_F(TrainCommandTest, OptionsThatNeedARecordedScheduleSaySo) {
  const std::string record = files_ / "schedule.jsonl";
  const std::string few = "scheduler.recorded_accesses_max=10";
  Command records(Words({"--json", "--record", record, "--set", few}));
  EXPECT_EQ(records.Wait(), 3);
  EXPECT_THAT(records.errors(), HasSubstr("--record " + record + ": no iteration was short"));
  EXPECT_EQ(Json::parse(records.output())["steps"], 6);
  EXPECT_FALSE(std::filesystem::exists(record));
  Command paced(Words({"--set", few, "--set", "device.emulated.load=0.5"}));
  EXPECT_EQ(paced.Wait(), 2);
  EXPECT_THAT(paced.errors(), HasSubstr("device.emulated.load: no schedule of key 'train"));
}

TEST_F(TrainCommandTest, SaysThatKernelsAreThoseOfAnOlderProcessor) {
  if (gpt::PeakVectorSet() <= gpt::VectorSet::kSse4) {
    GTEST_SKIP() << "the processor has no AVX, so the kernels cannot be older";
  }
  const std::vector<std::string> variables = {"ONEDNN_MAX_CPU_ISA=SSE41"};
  Command train(Words({"--set", "train.steps=1"}), {.variables = variables});
  EXPECT_EQ(train.Wait(), 0) << train.errors();
  EXPECT_THAT(train.output(), HasSubstr("fallback           matrix_products: SSE4 kernels at"));
  Command doctor({"doctor"}, {.variables = variables});
  EXPECT_EQ(doctor.Wait(), 0) << doctor.errors();
  EXPECT_THAT(doctor.output(), HasSubstr("! fallback: matrix_products: SSE4 kernels at"));
}

TEST_F(TrainCommandTest, VerifiesBitForBitWithoutNvme) {
  Command command(Words({"--verify",
                         "--set",
                         "tiers.nvme.bytes=0",
                         "--set",
                         "tiers.nvme.directory=/nonexistent",
                         "--set",
                         "tiers.dram.bytes=16MiB"}));
  EXPECT_EQ(command.Wait(), 0) << command.errors();
  EXPECT_THAT(command.output(), HasSubstr("identical to the run in RAM"));
  EXPECT_THAT(command.output(), Not(HasSubstr("dram-nvme")));
}

TEST_F(TrainCommandTest, VerifiesTwoThreadsMicroBatchesAndTensorsThatStayInDram) {
  Command command(Words({"--verify",
                         "--set",
                         "train.compute_threads=2",
                         "--set",
                         "train.micro_batches=2",
                         "--set",
                         "tiers.nvme.bytes=1MiB",
                         "--set",
                         "tiers.dram.bytes=8MiB"}));
  EXPECT_EQ(command.Wait(), 0) << command.errors();
  EXPECT_THAT(command.output(), HasSubstr("identical to the run in RAM"));
}

TEST_F(TrainCommandTest, WithoutAnOptimizerNoStepUpdates) {
  Command command(Words({"--json", "--set", "train.optimizer=\"none\""}));
  ASSERT_EQ(command.Wait(), 0) << command.errors();
  const Json json = Json::parse(command.output());
  EXPECT_EQ(json["bound_key"], "train.none");
  EXPECT_EQ(json["val_loss"], json["val_loss_first"]);
}

TEST_F(TrainCommandTest, ASumOfBudgetsThatIsTooSmallIsRefused) {
  Command command(Words({"--set", "tiers.nvme.bytes=0"}));
  EXPECT_EQ(command.Wait(), 2);
  EXPECT_THAT(command.errors(), HasSubstr("tiers.nvme.bytes is 0 B, at least "));
  EXPECT_THAT(command.errors(), HasSubstr("or raise tiers.dram.bytes"));
}

TEST_F(TrainCommandTest, RecomputesEveryLayerWithTheBitsOfTheRunInRam) {
  Command command(Words({"--verify",
                         "--json",
                         "--set",
                         "train.recompute=\"all\"",
                         "--record",
                         files_ / "schedule.jsonl"}));
  ASSERT_EQ(command.Wait(), 0) << command.errors();
  EXPECT_EQ(Json::parse(command.output())["verify"]["identical"], true);
  const std::string schedules = ReadWhole(files_ / "schedule.jsonl");
  EXPECT_THAT(schedules,
              AllOf(HasSubstr("\"train.recompute\""),
                    HasSubstr("\"train.last.recompute\""),
                    HasSubstr("recompute.l1.mlp.g1")));
}

TEST_F(TrainCommandTest, PlansToRecomputeBehindASlowLink) {
  const std::vector<std::string> planned = {
      "--verify", "--json", "--set", "train.recompute=\"planned\"", "--set", "train.steps=7"};
  std::vector<std::string> slow = planned, roomy = planned;
  for (const char* key : {"device.emulated.in_bytes_per_second=4000000",
                          "device.emulated.out_bytes_per_second=4000000"}) {
    slow.insert(slow.end(), {"--set", key});
  }
  for (const char* key : {"tiers.hbm.bytes=\"32MiB\"", "tiers.dram.bytes=\"32MiB\""}) {
    roomy.insert(roomy.end(), {"--set", key});
  }
  Command slow_command(Words(slow));
  ASSERT_EQ(slow_command.Wait(), 0) << slow_command.errors();
  const Json behind = Json::parse(slow_command.output());
  EXPECT_EQ(behind["verify"]["identical"], true);
  EXPECT_GE(behind["recompute"]["recomputed"], 1);
  EXPECT_EQ(behind["recompute"]["layers"].size(), behind["recompute"]["recomputed"]);
  EXPECT_LT(behind["recompute"]["step_ms"], behind["recompute"]["step_ms_without"]);
  EXPECT_THAT(slow_command.errors(), ContainsRegex("\nrecompute: 0 layers kept, [01] offloaded"));
  EXPECT_THAT(slow_command.errors(), HasSubstr("2 of 7 steps")) << "the others are not judged";
  Command roomy_command(Words(roomy));
  ASSERT_EQ(roomy_command.Wait(), 0) << roomy_command.errors();
  const Json fits = Json::parse(roomy_command.output());
  EXPECT_EQ(fits["recompute"]["kept"], 2);
  EXPECT_EQ(fits["recompute"]["recomputed"], 0);
}

/// A pipe as of `--config <(cat FILE)`.
TEST_F(TrainCommandTest, VerifiesAConfigurationThatCanBeReadOnlyOnce) {
  const std::string config = ReadWhole(kTinyConfig);
  std::array<int, 2> ends;
  ASSERT_EQ(pipe(ends.data()), 0);
  ASSERT_EQ(write(ends[1], config.data(), config.size()), static_cast<ssize_t>(config.size()));
  close(ends[1]);
  std::vector<std::string> words =
      Words({"--verify", "--set", "train.seed=7", "--set", "train.steps=2"});
  std::replace(words.begin(), words.end(), kTinyConfig, "/dev/fd/" + std::to_string(ends[0]));
  Command command(words);
  close(ends[0]);
  EXPECT_EQ(command.Wait(), 0) << command.errors();
}

TEST_F(TrainCommandTest, AFlippedBitIsFoundAndNamed) {
  Command command(Words({"--verify", "--json", "--set", "train.steps=2"}),
                  {.variables = {"SLUICE_TEST_VERIFY_FLIP=l1.fc.weight"}});
  EXPECT_EQ(command.Wait(), 1) << command.errors();
  EXPECT_EQ(Json::parse(command.output())["verify"]["identical"], false);
  EXPECT_THAT(command.errors(), HasSubstr("tensor l1.fc.weight differs at offset 0"));
}

TEST_F(TrainCommandTest, ALossThatDiffersIsNamed) {
  Command command(Words({"--verify"}), {.variables = {"SLUICE_TEST_VERIFY_FLIP=loss"}});
  EXPECT_EQ(command.Wait(), 1);
  EXPECT_THAT(command.output(), HasSubstr("DIFFERENT: the loss of step 1 is "));
  EXPECT_THAT(command.errors(), HasSubstr(", in RAM "));
}

std::vector<Json> ParseLines(const std::string& text) {
  std::vector<Json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(Json::parse(line));
  return lines;
}

void ExpectTextReport(const std::string& text) {
  EXPECT_THAT(text,
              AllOf(HasSubstr("KiB in 1 file, xxh3 "),
                    ContainsRegex("hbm-dram [0-9.]+ in [0-9.]+ out MiB"),
                    HasSubstr("step    1/6"),
                    HasSubstr("step    6/6"),
                    HasSubstr("validation loss"),
                    HasSubstr("peak memory"),
                    HasSubstr("bound by")));
  EXPECT_EQ(text.find('\r'), std::string::npos) << "progress in a pipe";
}

void ExpectSchedulesOfAllKeys(const std::string& path) {
  std::vector<std::string> keys;
  std::size_t tensors = 0, ops = 0, expected_tensors = 0, expected_ops = 0;
  for (const Json& line : ParseLines(ReadWhole(path))) {
    if (line.contains("schedule")) {
      keys.push_back(line["key"]);
      expected_tensors += line["tensors"].get<std::size_t>();
      expected_ops += line["ops"].get<std::size_t>();
    }
    tensors += line.contains("tensor") && line.contains("bytes");
    ops += line.contains("op") && line.contains("reads") && line.contains("writes");
  }
  EXPECT_THAT(keys, ElementsAre("train", "train.first", "train.last", "validate"));
  EXPECT_EQ(tensors, expected_tensors);
  EXPECT_EQ(ops, expected_ops);
  EXPECT_GT(ops, 20u);
  for (const std::string& key : keys) {
    Command show({"lab", "show", path, "--key", key, "--json"});
    ASSERT_EQ(show.Wait(), 0) << show.errors();
    const Json shown = ParseLines(show.output()).front();
    EXPECT_EQ(shown["key"], key);
    // The last step also uses gradients of the one before, and discards them.
    if (key != "train.last") {
      EXPECT_EQ(shown["unwritten_tensors"], 0) << key;
    }
    EXPECT_GT(shown["persistent_bytes"], 100'000) << key;
    EXPECT_GT(shown["compute_s"], 0) << key;
  }
}

void ExpectLinksComputeAndResidentBytes(const Json& trace) {
  std::vector<std::string> tracks;
  std::size_t intervals = 0;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "M") tracks.push_back(event["args"]["name"]);
    intervals += event["ph"] == "X";
  }
  EXPECT_THAT(tracks,
              IsSupersetOf({"hbm-dram in",
                            "hbm-dram out",
                            "dram-nvme in",
                            "dram-nvme out",
                            "compute",
                            "stall",
                            "resident bytes"}));
  EXPECT_GT(intervals, 100u);
}

void ExpectWhatTheOptimizerComputes(const Json& trace) {
  std::map<int, std::string> tracks;
  std::map<std::string, int> computed;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "M") tracks[event["tid"]] = event["args"]["name"];
    if (event["ph"] == "X" && tracks[event["tid"]] == "optimizer") ++computed[event["name"]];
  }
  constexpr int kSteps = 6;
  for (const auto& [name, times] : computed) EXPECT_EQ(times, kSteps) << name;
  EXPECT_THAT(computed, Contains(Pair("update.l0.qkv.bias.0: 192 elements", kSteps)));
}

void ExpectModel(const std::string& content) {
  ASSERT_GT(content.size(), 8u);
  std::uint64_t header_bytes = 0;
  for (int i = 7; i >= 0; --i)
    header_bytes =
        header_bytes << 8 | static_cast<unsigned char>(content[static_cast<std::size_t>(i)]);
  const Json header = Json::parse(content.substr(8, header_bytes));
  EXPECT_EQ(header["__metadata__"]["steps"], "6");
  std::uint64_t end = 0;
  for (const auto& [name, tensor] : header.items()) {
    if (name == "__metadata__") continue;
    end = std::max(end, tensor["data_offsets"][1].get<std::uint64_t>());
  }
  EXPECT_EQ(content.size(), 8 + header_bytes + end);
}

TEST_F(TrainCommandTest, WritesTheReportSchedulesTraceAndModel) {
  Command command(Words({"--record",
                         files_ / "schedule.jsonl",
                         "--trace",
                         files_ / "trace.json",
                         "--save",
                         files_ / "model.safetensors"}));
  ASSERT_EQ(command.Wait(), 0) << command.errors();
  ExpectTextReport(command.output());
  ExpectSchedulesOfAllKeys(files_ / "schedule.jsonl");
  const Json trace = Json::parse(ReadWhole(files_ / "trace.json"));
  ExpectLinksComputeAndResidentBytes(trace);
  ExpectWhatTheOptimizerComputes(trace);
  ExpectModel(ReadWhole(files_ / "model.safetensors"));
  EXPECT_THAT(files_.Names(),
              ElementsAre("model.safetensors", "schedule.jsonl", "text", "trace.json"));
}

TEST_F(TrainCommandTest, APacedLinkIsJudgedAfterItsPaceIsSet) {
  Command command(
      Words({"--verify", "--set", "device.emulated.load=0.5", "--set", "train.steps=8"}));
  ASSERT_EQ(command.Wait(), 0) << command.errors();
  EXPECT_THAT(command.output(),
              AllOf(HasSubstr("hbm-dram paced at"), HasSubstr("median of 3 of 8")));
}

/// The text less its line on slow matrix products, which a machine with other work may cause.
std::string WithoutComputeFallback(std::string text) {
  const std::size_t begin = text.find("sluice: warning: fallback: matrix_products: ");
  if (begin != std::string::npos) text.erase(begin, text.find('\n', begin) + 1 - begin);
  return text;
}

class TrainInterruptTest : public TrainCommandTest, public ::testing::WithParamInterface<int> {};

TEST_P(TrainInterruptTest, FinishesTheStepAndPrintsTheSummary) {
  Command command(Words({"--set",
                         "train.steps=100000",
                         "--set",
                         "train.val_every=100000",
                         "--save",
                         files_ / "model.safetensors"}));
  ASSERT_TRUE(command.ReadUntil("step    1/")) << command.errors();
  command.Signal(GetParam());
  EXPECT_EQ(command.Wait(), 128 + GetParam()) << command.errors();
  EXPECT_THAT(command.output(),
              AllOf(HasSubstr("peak memory"),
                    ContainsRegex("\ninterrupted after [0-9]+ of 100000 steps\n")));
  EXPECT_THAT(command.output(), Not(HasSubstr("validation loss"))) << "none followed a step";
  EXPECT_EQ(WithoutComputeFallback(command.errors()),
            "sluice: finishing what has begun; once more to stop at once\n");
  EXPECT_THAT(spill_.Names(), IsEmpty());
  EXPECT_THAT(files_.Names(), ElementsAre("model.safetensors", "text"));
}

INSTANTIATE_TEST_SUITE_P(All, TrainInterruptTest, ::testing::Values(SIGINT, SIGTERM, SIGHUP));

/// Updates run beside the backward, too, if there is no clipping. The signal finds one under way.
class TrainKillTest : public TrainCommandTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(TrainKillTest, AKilledRunLeavesNothing) {
  Command command(Words({"--set",
                         "train.steps=100000",
                         "--set",
                         GetParam(),
                         "--save",
                         files_ / "model.safetensors",
                         "--trace",
                         files_ / "trace.json"}));
  ASSERT_TRUE(command.ReadUntil("step    1/")) << command.errors();
  command.Signal(SIGKILL);
  EXPECT_EQ(command.Wait(), 128 + SIGKILL);
  EXPECT_THAT(spill_.Names(), IsEmpty());
  EXPECT_THAT(files_.Names(), ElementsAre("text"));
}

INSTANTIATE_TEST_SUITE_P(Clipping,
                         TrainKillTest,
                         ::testing::Values("train.clip_norm=1.0", "train.clip_norm=0.0"));

TEST_F(TrainCommandTest, CtrlCWorksWhileVerifying) {
  Command command(Words({"--verify", "--set", "train.steps=100000"}));
  ASSERT_TRUE(command.ReadUntil("step    6/")) << command.errors();
  command.Signal(SIGINT);
  EXPECT_EQ(command.Wait(), 130) << command.errors();
  EXPECT_THAT(command.output(), HasSubstr("of 100000 steps; the verification was not made\n"));
}

TEST_F(TrainCommandTest, FlagsAndKeysThatDoNotExistNameTheNearest) {
  EXPECT_THAT(UserError({"train"}), HasSubstr("--config FILE is required"));
  EXPECT_THAT(UserError(Words({"--verfy"})), HasSubstr("did you mean \"--verify\"?"));
  EXPECT_THAT(UserError(Words({"--set", "tiers.drm.bytes=1MiB"})),
              HasSubstr("did you mean \"tiers.dram.bytes\"?"));
}

TEST_F(TrainCommandTest, AGpuIsRefusedAndAutoIsTheEmulatedDevice) {
  EXPECT_THAT(UserError(Words({"--set", "device.kind=cuda"})),
              HasSubstr("train computes on the CPU: device.kind = \"emulated\""));
  Command command(Words({"--json", "--set", "device.kind=auto"}));
  ASSERT_EQ(command.Wait(), 0) << command.errors();
  EXPECT_THAT(command.errors(),
              HasSubstr("cuda is not in use (train computes on the CPU); the emulated device"));
  const Json first = Json::parse(command.output())["fallbacks"][0];
  EXPECT_EQ(first["what"], "cuda");
}

TEST_F(TrainCommandTest, ConfigurationErrorsNameThePlace) {
  const std::string malformed = files_.Write("malformed.toml", "page_bytes = 4096\n[model\n");
  EXPECT_THAT(UserError({"train", "--config", malformed}), HasSubstr("malformed.toml:2:"));
  const std::string misspelt = files_.Write("misspelt.toml", "[model]\nlayer = 2\n");
  EXPECT_THAT(UserError({"train", "--config", misspelt}),
              AllOf(HasSubstr("misspelt.toml:2:"), HasSubstr("\"model.layers\"")));
  EXPECT_THAT(UserError({"train", "--config", files_ / "none.toml"}),
              HasSubstr("none.toml does not exist; name a TOML file"));
  for (const auto& [path, message] : std::map<std::string, std::string>{
           {"", "--config is empty; name a TOML file"},
           {files_.Write("comment.toml", "# nothing\n\n"), "comment.toml is empty; name a TOML"},
           {files_.path(), files_.path() + " is a directory"},
           {"/dev/zero", "/dev/zero is a device"},
           {files_.Write("large.toml", std::string(2 << 20, '\n')), "large.toml is too large"}}) {
    EXPECT_THAT(UserError({"train", "--config", path}), HasSubstr(message));
  }
  EXPECT_THAT(UserError({"train", "--config"}), HasSubstr("--config needs a value"));
}

TEST_F(TrainCommandTest, TextErrorsNameTheFile) {
  EXPECT_THAT(UserError(WordsOn(files_.Write("empty", ""), {})), HasSubstr("empty is empty"));
  EXPECT_THAT(UserError(WordsOn(files_ / "none", {})), HasSubstr("none"));
  EXPECT_THAT(UserError(WordsOn(files_.Write("short", "abc"), {})), HasSubstr("bytes"));
}

TEST_F(TrainCommandTest, AForbiddenFallbackIsTheUsersError) {
  ASSERT_EQ(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0), 0) << "inherited by the command";
  const std::string message =
      UserError(Words({"--set", "memory.huge_pages=require", "--set", "tiers.dram.bytes=8MiB"}));
  prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
  EXPECT_THAT(message,
              AllOf(HasSubstr("memory on 2 MiB pages is required but refused: "),
                    HasSubstr("memory.huge_pages = \"auto\" allows")));
  EXPECT_THAT(spill_.Names(), IsEmpty());
}

TEST_F(TrainCommandTest, SpillDirectoriesThatCannotBeTrustedAreRefused) {
  const auto with = [this](const std::string& directory) {
    return UserError(Words({"--set", "tiers.nvme.directory=" + directory}));
  };
  EXPECT_THAT(with(files_ / "missing"), HasSubstr("missing"));
  const std::string shared = files_ / "shared";
  ASSERT_EQ(mkdir(shared.c_str(), 0700), 0);
  ASSERT_EQ(chmod(shared.c_str(), 0777), 0);
  EXPECT_THAT(with(shared), HasSubstr("shared"));
  if (geteuid() != 0) GTEST_SKIP() << "a foreign directory needs root to be made";
  ASSERT_EQ(chmod(shared.c_str(), 0700), 0);
  ASSERT_EQ(chown(shared.c_str(), 65534, 65534), 0);
  EXPECT_THAT(with(shared), HasSubstr("shared"));
}

TEST_F(TrainCommandTest, APlanNeedsStepsBeforeAndAfterIt) {
  EXPECT_THAT(UserError(Words({"--set", "train.recompute=\"planned\"", "--set", "train.steps=3"})),
              HasSubstr("\"train.steps\" is 3; with \"train.recompute\" = \"planned\" it must be "
                        "more than 3, 3 of which are made before that is decided"));
  EXPECT_THAT(UserError(Words({"--set", "train.recompute=\"some\""})), HasSubstr("\"planned\""));
}

TEST_F(TrainCommandTest, APaceNeedsStepsToJudge) {
  EXPECT_THAT(
      UserError(Words({"--verify", "--set", "device.emulated.load=0.5", "--set", "train.steps=5"})),
      HasSubstr("must be more than 5"));
  EXPECT_THAT(UserError(Words({"--set", "device.emulated.load=0.5", "--set", "train.steps=3"})),
              HasSubstr("must be more than 3"));
}

}  // namespace
}  // namespace sluice::tools
