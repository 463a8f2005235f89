// A loss that is no number: the run stops with a message, and the last good saves stay.
#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tools/train/train_command.h"

namespace sluice::tools {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class TrainNotFiniteTest : public TrainCommandTest {
 protected:
  void SetUp() override { std::filesystem::create_directory(state_); }

  /// A run whose loss is soon no number: a second moment of 0 divides a first one that is not.
  std::vector<std::string> Diverging(std::vector<std::string> more) const {
    for (const char* setting : {"train.learning_rate=1",
                                "train.warmup_steps=0",
                                "train.clip_norm=0",
                                "train.weight_decay=0",
                                "train.beta2=0",
                                "train.eps=1e-30",
                                "train.val_every=100"}) {
      more.insert(more.end(), {"--set", setting});
    }
    return Words(more);
  }

  const std::string state_ = files_ / "state";
};

TEST_F(TrainNotFiniteTest, TheRunStopsAfterThreeStepsAndSavesNothing) {
  const std::string model = files_ / "model";
  Command command(Diverging({"--save-state", state_, "--save", model}));
  EXPECT_EQ(command.Wait(), 2);
  EXPECT_THAT(command.output(), Not(HasSubstr("step    6/6")));
  EXPECT_THAT(command.errors(),
              AllOf(ContainsRegex("the loss is no finite number since step [23], for 3 steps"),
                    HasSubstr("lower \"train.learning_rate\" or set \"train.clip_norm\"")));
  EXPECT_TRUE(std::filesystem::is_empty(state_));
  EXPECT_FALSE(std::filesystem::exists(model));
}

TEST_F(TrainNotFiniteTest, TheNumberOfStepsIsConfigured) {
  Command command(Diverging({"--set", "train.not_finite_steps=1"}));
  EXPECT_EQ(command.Wait(), 2);
  EXPECT_THAT(command.errors(), ContainsRegex("since step [23], for 1 steps"));
  Command never(Diverging({"--set", "train.not_finite_steps=0"}));
  EXPECT_EQ(never.Wait(), 0) << never.errors();
  EXPECT_THAT(never.output(), HasSubstr("step    6/6"));
}

TEST_F(TrainNotFiniteTest, ARunThatEndsWithoutANumberReplacesNoSave) {
  Command good(Words({"--set", "train.steps=1", "--save-state", state_}));
  ASSERT_EQ(good.Wait(), 0) << good.errors();
  const std::string before = ReadWhole(state_ + "/optimizer.sluice");
  Command bad(Diverging({"--set", "train.steps=4", "--resume", state_, "--save-state", state_}));
  EXPECT_EQ(bad.Wait(), 2);
  EXPECT_THAT(bad.errors(),
              HasSubstr("the last loss is no finite number: --save and --save-state"));
  EXPECT_EQ(ReadWhole(state_ + "/optimizer.sluice"), before);
}

}  // namespace
}  // namespace sluice::tools
