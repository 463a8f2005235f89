#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tools/train/train_command.h"

namespace sluice::tools {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Fixture with a save after three steps.
class TrainResumeTest : public TrainCommandTest {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(state_);
    Command command(Words({"--set", "train.steps=3", "--save-state", state_}));
    ASSERT_EQ(command.Wait(), 0) << command.errors();
  }

  std::vector<std::string> Resumed(const std::vector<std::string>& assignments) const {
    std::vector<std::string> more = {"--resume", state_};
    for (const std::string& assignment : assignments) {
      more.insert(more.end(), {"--set", assignment});
    }
    return Words(more);
  }

  const std::string state_ = files_ / "state";
};

TEST_F(TrainResumeTest, AnotherRunIsRefusedBeforeTheWork) {
  EXPECT_THAT(UserError(Resumed({"train.seed=7", "train.states=\"bf16\""})),
              AllOf(HasSubstr("sluice: --resume: " + state_ + " holds another run: "),
                    HasSubstr("\"train.states\" is fp32 in the save and bf16 here"),
                    HasSubstr("\"train.seed\" is 1 in the save and 7 here"),
                    HasSubstr("go on with --set train.states=fp32 --set train.seed=1, or"),
                    Not(HasSubstr("/groups"))));
}

/// This model is also too large for the budgets. That message would not name the cause.
TEST_F(TrainResumeTest, AnotherModelIsNamedBeforeItsSize) {
  EXPECT_THAT(UserError(Resumed({"model.width=4096"})),
              AllOf(HasSubstr("\"model.width\" is 64 in the save and 4096 here"),
                    HasSubstr("go on with --set model.width=64, or"),
                    Not(HasSubstr("does not fit"))));
}

TEST_F(TrainResumeTest, NoStepsLeftIsSaidWithTheFix) {
  EXPECT_EQ(UserError(Resumed({"train.steps=3"})),
            "sluice: --resume: 3 steps are done already, and \"train.steps\" is 3; raise it\n");
}

TEST_F(TrainResumeTest, AnotherTextBatchAndMicroBatchesGoOn) {
  const std::string other = files_.Write("other", std::string(9000, 'x') + std::string(9000, 'y'));
  Command command(WordsOn(other,
                          {"--resume",
                           state_,
                           "--set",
                           "train.batch=2",
                           "--set",
                           "train.micro_batches=2",
                           "--set",
                           "train.steps=5"}));
  EXPECT_EQ(command.Wait(), 0) << command.errors();
  EXPECT_THAT(command.output(),
              AllOf(HasSubstr("step    5/5"), HasSubstr("steps              4 to 5 of 5, 2 in")));
  EXPECT_THAT(command.errors(),
              AllOf(HasSubstr("\"train.batch\" is 4 in the save and 2 here; "),
                    HasSubstr("\"train.micro_batches\" is 1 in the save and 2 here; the text's"),
                    HasSubstr("goes on with micro-batch 7 of its own order, and is not bit-")));
}

TEST_F(TrainResumeTest, AssignmentsThatTheMessageNamesGoOn) {
  Command command(Resumed({"train.states=fp32",
                           "train.seed=1",
                           "train.learning_rate=0.001",
                           "tiers.dram.bytes=2MiB",
                           "scheduler.policy=lru",
                           "train.steps=4"}));
  EXPECT_EQ(command.Wait(), 0) << command.errors();
  EXPECT_THAT(command.output(), HasSubstr("resumed after step 3 of 4"));
}

TEST_F(TrainResumeTest, AStateIsReplacedOnlyByARunThatGoesOnFromIt) {
  const auto bytes = [this] { return ReadWhole(state_ + "/optimizer.sluice"); };
  const std::string before = bytes();
  EXPECT_EQ(UserError(Words({"--save-state", state_})),
            "sluice: --save-state: " + state_ +
                "/optimizer.sluice is there already and would be replaced; go on from it with "
                "--resume " +
                state_ + ", move it away, or name another directory\n");
  const std::string other = files_ / "other";
  std::filesystem::create_directory(other);
  Command elsewhere(Words({"--resume", state_, "--save-state", other}));
  EXPECT_EQ(elsewhere.Wait(), 0) << elsewhere.errors();
  EXPECT_THAT(UserError(Words({"--resume", state_, "--save-state", other})),
              HasSubstr("other/optimizer.sluice is there already"));
  EXPECT_EQ(bytes(), before);
  Command same(Words({"--resume", state_, "--save-state", state_ + "/."}));
  EXPECT_EQ(same.Wait(), 0) << same.errors();
  EXPECT_EQ(bytes(), ReadWhole(other + "/optimizer.sluice"));
}

TEST_F(TrainResumeTest, TooFewStepsToJudgeAreSaidBeforeTheWork) {
  EXPECT_THAT(UserError(Resumed({"device.emulated.load=0.5"})),
              HasSubstr("\"train.steps\" is 6, of which 3 are done; with \"device.emulated.load\" "
                        "it must be more than 6, 3 of which are made before the pace is set"));
  EXPECT_THAT(UserError(Resumed({"train.recompute=\"planned\""})),
              HasSubstr("it must be more than 6, 3 of which are made before that is decided"));
  Command command(Resumed({"device.emulated.load=0.5", "train.steps=7"}));
  EXPECT_EQ(command.Wait(), 0) << command.errors();
  EXPECT_THAT(command.output(), HasSubstr("median of 1 of 4 steps"));
}

}  // namespace
}  // namespace sluice::tools
