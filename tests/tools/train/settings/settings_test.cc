#include <sched.h>

#include <filesystem>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/names/common_names.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/project_paths.h"
#include "tests/tools/temporary_directory.h"
#include "tools/train/settings/budget_check.h"
#include "tools/train/settings/train_flags.h"
#include "tools/train/settings/train_settings.h"
#include "workloads/gpt/training/footprint.h"

namespace sluice::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kConfigs = testing::ProjectFile("configs");

class ShippedConfigTest : public ::testing::TestWithParam<const char*> {
 protected:
  std::string path() const { return kConfigs + "/" + GetParam(); }
};

TEST_P(ShippedConfigTest, Loads) {
  absl::StatusOr<Config> config = Config::Load(path());
  ASSERT_TRUE(config.ok()) << config.status();
  const absl::StatusOr<TrainSettings> settings = ReadTrainSettings(*config);
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_GT(settings->runtime.hbm_bytes, Bytes(0));
  EXPECT_TRUE(settings->texts.empty());
}

/// Lines "key = value" of a whole configuration.
std::set<std::string> LinesOf(const ConfigText& config) {
  const absl::StatusOr<std::string> text = WriteTrainSettings(config);
  EXPECT_TRUE(text.ok()) << text.status();
  const std::vector<std::string> lines = absl::StrSplit(*text, '\n', absl::SkipEmpty());
  return {lines.begin(), lines.end()};
}

TEST_P(ShippedConfigTest, SetsOnlyWhatDiffersFromTheDefaults) {
  const std::set<std::string> defaults = LinesOf({.source = "defaults"});
  const std::string text = ReadWhole(path());
  int differ = 0;
  for (const std::string& line : LinesOf({.text = text, .source = path()})) {
    differ += defaults.contains(line) ? 0 : 1;
  }
  const std::regex assignment("^[a-z_.]+ = ", std::regex::multiline);
  const std::sregex_iterator set(text.begin(), text.end(), assignment);
  EXPECT_EQ(std::distance(set, std::sregex_iterator()), differ);
}

TEST_P(ShippedConfigTest, FitsItsBudgetsAndWastesLittleOnPadding) {
  absl::StatusOr<Config> config = Config::Load(path());
  ASSERT_TRUE(config.ok()) << config.status();
  const absl::StatusOr<TrainSettings> settings = ReadTrainSettings(*config);
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_TRUE(CheckBudgets(*settings).ok());
  const auto footprint =
      gpt::MeasureFootprint(settings->model, settings->train, settings->runtime.page_bytes);
  ASSERT_TRUE(footprint.ok()) << footprint.status();
  EXPECT_LE(footprint->padding.count(), footprint->live_max.count() / 20);
}

INSTANTIATE_TEST_SUITE_P(All,
                         ShippedConfigTest,
                         ::testing::Values("train-gpt.toml",
                                           "train-gpt-linkbound.toml",
                                           "train-gpt-tiny.toml",
                                           "train-gpt-large.toml"));

TEST(DocumentsTest, NameKeysThatExist) {
  const absl::StatusOr<std::string> known = WriteTrainSettings({.source = "defaults"});
  ASSERT_TRUE(known.ok()) << known.status();
  const std::regex key("`((?:io|memory|tiers|scheduler|train|model|device)[.][a-z_.]+)`");
  int keys = 0;
  for (const char* const document :
       {"README.md", "docs/configuration.md", "docs/troubleshooting.md"}) {
    const std::string text = ReadWhole(testing::ProjectFile(document));
    for (std::sregex_iterator at(text.begin(), text.end(), key), end; at != end; ++at, ++keys) {
      EXPECT_THAT("\n" + *known, HasSubstr("\n" + (*at)[1].str() + " = ")) << document;
    }
  }
  EXPECT_GE(keys, 20);
}

TEST(CommonNamesTest, AFlagOfOthersLeadsToAFlagOrAKey) {
  const auto refusal = [](const std::string& flag) {
    return std::string(ReadTrainFlags(std::vector<std::string>{flag}).status().message());
  };
  EXPECT_EQ(refusal("--lr"),
            "unknown flag \"--lr\"; did you mean \"--set train.learning_rate=...\"?");
  EXPECT_EQ(refusal("--steps"),
            "unknown flag \"--steps\"; did you mean \"--set train.steps=...\"?");
  EXPECT_EQ(refusal("--data"), "unknown flag \"--data\"; did you mean \"--text\"?");
  EXPECT_EQ(refusal("--ckpt"), "unknown flag \"--ckpt\"; did you mean \"--save-state\"?");
}

TEST(CommonNamesTest, LeadToKeysAndFlagsThatExist) {
  const absl::StatusOr<std::string> keys = WriteTrainSettings({.source = "defaults"});
  ASSERT_TRUE(keys.ok()) << keys.status();
  const std::string flags = DescribeFlags(TrainFlagSpecs());
  for (const base::CommonName& name : base::CommonNames()) {
    const std::string ours(name.ours);
    if (ours.starts_with("--")) {
      EXPECT_THAT(flags, HasSubstr("  " + ours + " ")) << name.theirs;
    } else {
      EXPECT_THAT("\n" + *keys, HasSubstr("\n" + ours + " = ")) << name.theirs;
    }
  }
}

TEST(WriteTrainSettingsTest, IsReadToTheSameSettings) {
  const ConfigText config = {.text = "page_bytes = \"192KiB\"\n[tiers]\ndram.bytes = 1234567\n",
                             .source = "test",
                             .assignments = {"page_bytes=64KiB",
                                             "train.texts=['a b', 'c\\d']",
                                             "train.eps=3e-17",
                                             "tiers.nvme.bytes=3221225472",
                                             "workers.cpus=[0]"}};
  const absl::StatusOr<std::string> text = WriteTrainSettings(config);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, HasSubstr("\ntiers.nvme.bytes = \"3GiB\"\n"));
  EXPECT_THAT(*text, HasSubstr("\ntiers.dram.bytes = 1234567\n"));
  const absl::StatusOr<TrainSettings> again = ReadTrainSettings({.text = *text, .source = "again"});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(WriteTrainSettings({.text = *text, .source = "again"}).value(), *text);
  EXPECT_EQ(again->runtime.page_bytes, Bytes(64 << 10));
  EXPECT_EQ(again->runtime.dram_bytes, Bytes(1234567));
  EXPECT_THAT(again->texts, ElementsAre("a b", "c\\d"));
  EXPECT_EQ(again->train.eps, 3e-17);
  EXPECT_THAT(again->runtime.cpus, ElementsAre(0));
}

TEST(ShippedConfigsTest, EveryShippedConfigurationIsListed) {
  for (const auto& entry : std::filesystem::directory_iterator(kConfigs)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("train-") || entry.path().extension() != ".toml") continue;
    EXPECT_THAT((std::vector<std::string>{"train-gpt.toml",
                                          "train-gpt-linkbound.toml",
                                          "train-gpt-tiny.toml",
                                          "train-gpt-large.toml"}),
                ::testing::Contains(name));
  }
}

absl::StatusOr<TrainSettings> Settings(const std::vector<std::string>& assignments) {
  absl::StatusOr<Config> config = Config::Load(kConfigs + "/train-gpt.toml");
  EXPECT_TRUE(config.ok()) << config.status();
  for (const std::string& assignment : assignments) {
    EXPECT_TRUE(config->Set(assignment).ok()) << assignment;
  }
  return ReadTrainSettings(*config);
}

TEST(TrainSettingsTest, ComputesOnEveryProcessorOfTheProcess) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  EXPECT_EQ(Settings({})->train.compute_threads, CPU_COUNT(&before));
  cpu_set_t one;
  CPU_ZERO(&one);
  for (std::size_t cpu = 0; CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(Settings({})->train.compute_threads, 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
}

TEST(TrainSettingsTest, ReadsEveryKeyOfTheWorkload) {
  const absl::StatusOr<TrainSettings> settings =
      Settings({"model.layers=3",          "model.heads=4",           "model.width=64",
                "model.context=32",        "train.batch=6",           "train.steps=7",
                "train.learning_rate=0.5", "train.warmup_steps=9",    "train.weight_decay=0.25",
                "train.beta1=0.5",         "train.beta2=0.75",        "train.eps=0.125",
                "train.clip_norm=2",       "train.group_sequences=3", "train.seed=11",
                "train.val_every=13",      "train.val_batches=14",    "train.val_fraction=0.25",
                "train.compute_threads=2", "train.texts=['a', 'b']",  "device.emulated.load=0.5",
                "train.recompute=\"all\"", "train.states=\"8bit\""});
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_THAT((std::vector<int>{settings->model.layers,
                                settings->model.heads,
                                settings->model.width,
                                settings->model.context}),
              ElementsAre(3, 4, 64, 32));
  const gpt::TrainConfig& train = settings->train;
  EXPECT_THAT((std::vector<int>{train.batch,
                                train.steps,
                                train.warmup_steps,
                                train.group_sequences,
                                train.val_every,
                                train.val_batches,
                                train.compute_threads}),
              ElementsAre(6, 7, 9, 3, 13, 14, 2));
  EXPECT_THAT((std::vector<double>{train.learning_rate,
                                   train.weight_decay,
                                   train.beta1,
                                   train.beta2,
                                   train.eps,
                                   train.clip_norm,
                                   train.val_fraction}),
              ElementsAre(0.5, 0.25, 0.5, 0.75, 0.125, 2, 0.25));
  EXPECT_EQ(train.seed, 11u);
  EXPECT_EQ(train.recompute, gpt::Recompute::kAll);
  EXPECT_EQ(train.states, StateType::k8Bit);
  EXPECT_THAT(settings->texts, ElementsAre("a", "b"));
  EXPECT_EQ(settings->emulated_load, 0.5);
}

TEST(TrainSettingsTest, ErrorsNameTheKey) {
  const std::map<std::string, std::string> cases = {
      {"train.steps=0", "\"train.steps\" is 0; allowed are 1 to 1000000000"},
      {"train.batch=9223372036854775807",
       "\"train.batch\" is 9223372036854775807; allowed are 1 to 65536"},
      {"train.not_finite_steps=-1",
       "\"train.not_finite_steps\" is -1; allowed are 0 to 2147483647"},
      {"train.batch=9223372036854775808", "a whole number, at most 9223372036854775807"},
      {"train.seed=-1", "\"train.seed\" is -1; allowed are 0 to 9223372036854775807"},
      {"train.beta1=1", "\"train.beta1\" is 1; allowed are 0 to 0.999999"},
      {"train.beta2=1.5", "\"train.beta2\" is 1.5; allowed are 0 to 0.999999"},
      {"train.beta2=-0.5", "\"train.beta2\" is -0.5; allowed are 0 to 0.999999"},
      {"train.weight_decay=2", "\"train.weight_decay\" is 2; allowed are 0 to 1"},
      {"train.learning_rate=9223372036854775807", "\"train.learning_rate\" is 9.22"},
      {"train.val_fraction=0.9", "\"train.val_fraction\" is 0.9; allowed are 0.001 to 0.5"},
      {"device.emulated.load=20", "\"device.emulated.load\" is 20; allowed are 0 to 10"},
      {"train.recompute=\"some\"",
       "\"train.recompute\" is \"some\"; allowed are \"none\", \"all\", \"planned\""},
      {"train.recompute=1", "train.recompute"},
      {"train.states=\"fp16\"",
       "\"train.states\" is \"fp16\"; allowed are \"fp32\", \"bf16\", \"8bit\""},
      {"train.states=8", "train.states"},
      {"train.lerning_rate=1",
       "unknown key \"train.lerning_rate\"; did you mean "
       "\"train.learning_rate\"?"},
      {"tiers.drum.bytes=1", "did you mean \"tiers.dram.bytes\"?"},
      {"model.heads=7", "heads"},
      {"train.group_sequences=3", "group_sequences"}};
  for (const auto& [assignment, message] : cases) {
    const absl::StatusOr<TrainSettings> settings = Settings({assignment});
    ASSERT_FALSE(settings.ok()) << assignment;
    EXPECT_EQ(settings.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(settings.status().message()), HasSubstr(message)) << assignment;
  }
}

TEST(TrainSettingsTest, ProductsAreLimitedToo) {
  const std::map<std::string, std::vector<std::string>> cases = {
      {"train.batch x model.context is 33554432; allowed are 1 to 16777216",
       {"train.batch=65536", "model.context=512", "train.group_sequences=65536"}},
      {"model.layers x train.micro_batches x train.batch / train.group_sequences is 32768; allowed "
       "are 0 to 16384",
       {"model.layers=8", "train.batch=4096", "train.group_sequences=1"}},
      {"the number of parameters is", {"model.width=65536", "model.heads=1", "model.layers=2"}}};
  for (const auto& [message, assignments] : cases) {
    const absl::StatusOr<TrainSettings> settings = Settings(assignments);
    ASSERT_FALSE(settings.ok()) << message;
    EXPECT_THAT(std::string(settings.status().message()), HasSubstr(message));
  }
}

/// The largest settings allowed have few ops, so signals are answered at once. Validation adds
/// none.
TEST(TrainSettingsTest, TheLargestStepsHaveFewOps) {
  for (const std::vector<std::string>& assignments : std::vector<std::vector<std::string>>{
           {"model.width=65536",
            "model.heads=1",
            "model.layers=1",
            "model.context=65536",
            "train.batch=256",
            "train.group_sequences=256"},
           {"model.layers=1024", "train.batch=16", "train.group_sequences=1"},
           {"model.layers=1",
            "model.context=1024",
            "train.batch=16384",
            "train.group_sequences=1"}}) {
    std::vector<std::string> all = {"train.val_batches=65536", "train.val_fraction=0.001"};
    all.insert(all.end(), assignments.begin(), assignments.end());
    const absl::StatusOr<TrainSettings> settings = Settings(all);
    ASSERT_TRUE(settings.ok()) << settings.status();
    const auto footprint =
        gpt::MeasureFootprint(settings->model, settings->train, settings->runtime.page_bytes);
    ASSERT_TRUE(footprint.ok()) << footprint.status();
    EXPECT_LT(footprint->ops_per_step, 1'000'000);
  }
}

TEST(TrainFlagsTest, TextsOfTheFlagsReplaceThoseOfTheConfiguration) {
  const std::vector<std::string> words = {"--config",
                                          kConfigs + "/train-gpt.toml",
                                          "--set",
                                          "train.texts=['a']",
                                          "--text",
                                          "b",
                                          "c",
                                          "--verify",
                                          "--json",
                                          "--record",
                                          "r",
                                          "--trace",
                                          "t",
                                          "--save",
                                          "s"};
  const absl::StatusOr<TrainFlags> flags = ReadTrainFlags(words);
  ASSERT_TRUE(flags.ok()) << flags.status();
  EXPECT_THAT(flags->settings.texts, ElementsAre("b", "c"));
  EXPECT_TRUE(flags->verify && flags->json);
  EXPECT_EQ(flags->record_path + flags->trace_path + flags->save_path, "rts");
}

}  // namespace
}  // namespace sluice::tools
