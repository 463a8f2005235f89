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

TEST_F(TrainCommandTest, ComparesPoliciesInTurnUnderTheSamePace) {
  Command command(Words({"--verify",
                         "--json",
                         "--compare-policies",
                         "lru,min",
                         "--set",
                         "train.steps=12",
                         "--set",
                         "device.emulated.load=1.0"}));
  ASSERT_EQ(command.Wait(), 0) << command.errors();
  const Json json = Json::parse(command.output());
  EXPECT_EQ(json["verify"]["identical"], true);
  std::vector<std::string> names;
  for (const auto& [name, policy] : json["policies"].items()) {
    names.push_back(name);
    EXPECT_GT(policy["step_ms_median"], 0) << name;
    EXPECT_GT(policy["times_as_long"], 0) << name;
    // Whoever had kept the link's own rate would be many times as fast.
    EXPECT_GE(policy["step_ms_median"].get<double>(), 0.5 * json["volume_bound_ms"].get<double>())
        << name;
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
  EXPECT_THAT(command.output(), HasSubstr("policies           DIFFERENT: the loss of step 1 is "));
  EXPECT_THAT(command.errors(), HasSubstr(", under fifo "));
}

TEST_F(TrainCommandTest, RefusesPoliciesThatCannotBeCompared) {
  const auto errors_of = [this](const std::vector<std::string>& words) {
    Command command(Words(words));
    EXPECT_EQ(command.Wait(), 2);
    return command.errors();
  };
  EXPECT_THAT(errors_of({"--compare-policies", "lru,plannd"}),
              HasSubstr("--compare-policies: \"scheduler.policy\" is \"plannd\""));
  EXPECT_THAT(errors_of({"--compare-policies", "lru,lru"}), HasSubstr("lru is named twice"));
  EXPECT_THAT(errors_of({"--compare-policies", ""}), HasSubstr("--compare-policies: "));
  EXPECT_THAT(errors_of({"--compare-policies", "lru", "--set", "train.recompute=\"planned\""}),
              HasSubstr("set \"none\" or \"all\""));
  EXPECT_THAT(errors_of({"--compare-policies", "lru", "--compare-updates"}),
              HasSubstr("leave out --compare-updates"));
}

}  // namespace
}  // namespace sluice::tools
