#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/tools/train/train_command.h"

namespace sluice::tools {
namespace {

using Json = nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// The link is to take ten times as long as a step in RAM, about twice what a paged step takes
/// without the pace.
TEST_F(TrainCommandTest, ComparesPoliciesUnderTheSamePace) {
  Command command(Words({"--verify",
                         "--json",
                         "--compare-policies",
                         "lru,min",
                         "--set",
                         "train.steps=12",
                         "--set",
                         "device.emulated.load=10",
                         "--set",
                         "train.batch=16",
                         "--set",
                         "train.val_every=100"}));
  ASSERT_EQ(command.Wait(), 0) << command.errors();
  const Json json = Json::parse(command.output());
  EXPECT_EQ(json["verify"]["identical"], true);
  std::vector<std::string> names;
  for (const auto& [name, policy] : json["policies"].items()) {
    names.push_back(name);
    EXPECT_EQ(policy["identical"], true) << name;
    EXPECT_EQ(policy["blocks"], 2) << name << ": the one before the pace does not count";
    EXPECT_GE(policy["step_ms_median"].get<double>(), 0.8 * json["bound_ms"].get<double>()) << name;
  }
  EXPECT_THAT(names, ElementsAre("lru", "min"));
  EXPECT_THAT(command.errors(), HasSubstr("\npolicy lru"));
  EXPECT_THAT(spill_.Names(), IsEmpty());
}

TEST_F(TrainCommandTest, ComparesPoliciesWithoutARunInRam) {
  Command command(Words({"--compare-policies", "planned"}));
  ASSERT_EQ(command.Wait(), 0) << command.errors();
  EXPECT_THAT(command.output(), HasSubstr("\npolicy planned"));
}

TEST_F(TrainCommandTest, ALossThatDiffersUnderAnotherPolicyIsSaid) {
  Command command(Words({"--compare-policies", "fifo"}),
                  {.variables = {"SLUICE_TEST_VERIFY_FLIP=loss"}});
  EXPECT_EQ(command.Wait(), 1);
  EXPECT_THAT(command.output(), HasSubstr("\n  DIFFERENT: the loss of step 1 is "));
  EXPECT_THAT(command.errors(), HasSubstr(", under fifo "));
}

/// The main run is the result, whatever becomes of what it is compared with.
TEST_F(TrainCommandTest, ARunThatEndsEarlyIsLeftOut) {
  const std::string state = files_ / "state";
  std::filesystem::create_directory(state);
  Command command(Words({"--json", "--compare-policies", "lru,min", "--save-state", state}),
                  {.variables = {"SLUICE_TEST_CHILD_ENDS=lru"}});
  EXPECT_EQ(command.Wait(), 3);
  EXPECT_THAT(command.errors(), HasSubstr("--compare-policies lru: the other process has gone"));
  const Json json = Json::parse(command.output());
  EXPECT_EQ(json["steps"], 6);
  EXPECT_EQ(json["policies"]["lru"]["blocks"], 0);
  EXPECT_FALSE(json["policies"]["lru"].contains("times_as_long"));
  EXPECT_EQ(json["policies"]["lru"]["failure"], "the other process has gone");
  EXPECT_GT(json["policies"]["min"]["times_as_long"], 0);
  EXPECT_FALSE(std::filesystem::is_empty(state));
}

TEST_F(TrainCommandTest, RefusesPoliciesThatCannotBeCompared) {
  const auto errors_of = [this](const std::vector<std::string>& words) {
    Command command(Words(words));
    EXPECT_EQ(command.Wait(), 2);
    return command.errors();
  };
  EXPECT_THAT(errors_of({"--compare-policies", "lru,plannd"}),
              HasSubstr("--compare-policies: \"scheduler.policy\" is \"plannd\""));
  EXPECT_THAT(errors_of({"--compare-policies", "lru,\"lru\""}), HasSubstr("lru is named twice"));
  EXPECT_THAT(errors_of({"--compare-policies", ""}), HasSubstr("--compare-policies: "));
  EXPECT_THAT(errors_of({"--compare-policies", "lru", "--set", "train.recompute=\"planned\""}),
              HasSubstr("set \"none\" or \"all\""));
  EXPECT_THAT(errors_of({"--compare-policies", "lru", "--compare-updates"}),
              HasSubstr("leave out --compare-updates"));
}

}  // namespace
}  // namespace sluice::tools
