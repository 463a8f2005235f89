// --state: one command for the first job and the requeued one.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/child_process.h"
#include "tests/support/small_file_system.h"
#include "tests/tools/train/train_command.h"

namespace sluice::tools {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class TrainStateTest : public TrainCommandTest {
 protected:
  /// The job that a scheduler starts again and again.
  std::vector<std::string> Job(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"--state", state_, "--set", "train.save_every=\"1 steps\""};
    words.insert(words.end(), more.begin(), more.end());
    return Words(words);
  }
  std::string Run(const std::vector<std::string>& words) {
    Command command(words);
    EXPECT_EQ(command.Wait(), 0) << command.errors();
    errors_ = command.errors();
    return command.output();
  }
  /// Saves that are whole, oldest first.
  std::vector<std::string> Saves() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(state_)) {
      if (!fs::exists(entry.path() / "optimizer.sluice")) continue;
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  void Damage(const std::string& save) const {
    std::fstream file(state_ + "/" + save + "/optimizer.sluice",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(1000);
    file.put('\x55');
  }

  const std::string state_ = files_ / "state";
  std::string errors_;
};

TEST_F(TrainStateTest, AKilledJobThatIsStartedAgainEndsAsOneThatNeverStopped) {
  Run(Words({"--set", "train.steps=12", "--save", files_ / "whole"}));
  const std::vector<std::string> job = {"--set", "train.steps=12", "--save", files_ / "parts"};
  for (const char* until : {"step    3/", "step    7/"}) {
    Command killed(Job(job));
    ASSERT_TRUE(killed.ReadUntil(until)) << killed.errors();
    killed.Signal(SIGKILL);
    EXPECT_EQ(killed.Wait(), 128 + SIGKILL);
  }
  const std::string output = Run(Job(job));
  EXPECT_THAT(output,
              AllOf(HasSubstr("resumed after step "),
                    HasSubstr(" to 12 of 12, "),
                    Not(HasSubstr("step    1/"))));
  EXPECT_EQ(ReadWhole(files_ / "whole"), ReadWhole(files_ / "parts"));
  EXPECT_THAT(Saves(), ElementsAre("step-0000011", "step-0000012"));
}

TEST_F(TrainStateTest, NoOtherSaveMayHideThoseOfAJob) {
  Run(Job({}));
  for (const char* const flag : {"", "--resume"}) {
    std::vector<std::string> words = {"--save-state", state_};
    if (*flag != '\0') words.insert(words.end(), {flag, state_});
    EXPECT_THAT(UserError(Words(words)),
                HasSubstr("state has saves of --state, the newest after step 6, which a save "
                          "beside them would hide; go on with --state "));
  }
  EXPECT_FALSE(fs::exists(state_ + "/optimizer.sluice"));
  EXPECT_THAT(Run(Job({"--set", "train.steps=7"})), HasSubstr("resumed after step 6 of 7"));
}

TEST_F(TrainStateTest, AJobWithNothingLeftToDoEndsWell) {
  Run(Job({}));
  const std::string output = Run(Job({"--save", files_ / "model"}));
  EXPECT_THAT(output, HasSubstr("all steps are done; raise train.steps to go on\n"));
  EXPECT_TRUE(fs::exists(files_ / "model"));
  EXPECT_THAT(Run(Job({"--set", "train.steps=5"})),
              HasSubstr("resumed after step 6, beyond the 5 of this run\n"));
  EXPECT_THAT(Run(Job({"--set", "train.steps=7"})), HasSubstr("resumed after step 6 of 7"));
}

TEST_F(TrainStateTest, WithoutAnIntervalTheEndIsSaved) {
  Run(Words({"--state", state_, "--set", "train.steps=3"}));
  EXPECT_THAT(Saves(), ElementsAre("step-0000003"));
  EXPECT_THAT(Run(Words({"--resume", state_})), HasSubstr("resumed after step 3 of 6"));
}

TEST_F(TrainStateTest, ADamagedSaveIsPassedOver) {
  Run(Job({"--save", files_ / "whole"}));
  Damage("step-0000006");
  const std::string output = Run(Job({"--save", files_ / "again"}));
  EXPECT_THAT(output, HasSubstr("resumed after step 5 of 6"));
  EXPECT_THAT(errors_,
              AllOf(HasSubstr("--state: passed over step-0000006: "), HasSubstr("checksum")));
  EXPECT_EQ(ReadWhole(files_ / "whole"), ReadWhole(files_ / "again"));
}

TEST_F(TrainStateTest, NothingBeginsIfNoSaveVerifies) {
  Run(Job({}));
  Damage("step-0000005");
  fs::resize_file(state_ + "/step-0000006/optimizer.sluice", 2000);
  EXPECT_THAT(UserError(Job({})),
              AllOf(HasSubstr("step-0000005: "),
                    HasSubstr("step-0000006: "),
                    HasSubstr("to begin anew name another directory, or move the saves away")));
  EXPECT_THAT(Saves(), ElementsAre("step-0000005", "step-0000006"));
}

TEST_F(TrainStateTest, AnotherModelIsRefusedAndAnotherTextIsNot) {
  Run(Job({"--set", "train.steps=3"}));
  EXPECT_THAT(UserError(Job({"--set", "model.layers=1"})),
              HasSubstr("go on with --set model.layers=2, or begin anew with another --state"));
  const std::string text = files_.Write("other", std::string(9000, 'x') + std::string(9000, 'y'));
  EXPECT_THAT(Run(WordsOn(text, {"--state", state_})), HasSubstr("resumed after step 3 of 6"));
  EXPECT_THAT(errors_, HasSubstr("--state: the text's xxh3 is "));
}

TEST_F(TrainStateTest, TwoRunsAtOnceAreRefused) {
  Command first(Job({"--set", "train.steps=100000"}));
  ASSERT_TRUE(first.ReadUntil("step    1/")) << first.errors();
  EXPECT_THAT(UserError(Job({})), HasSubstr("--state: another run saves there: process "));
  first.Signal(SIGINT);
  EXPECT_EQ(first.Wait(), 128 + SIGINT) << first.errors();
}

TEST_F(TrainStateTest, AnInterruptedJobCountsStepsFromTheFirst) {
  Run(Job({"--set", "train.steps=3"}));
  Command command(Job({"--set", "train.steps=100000"}));
  ASSERT_TRUE(command.ReadUntil("step    5/")) << command.errors();
  command.Signal(SIGTERM);
  EXPECT_EQ(command.Wait(), 128 + SIGTERM) << command.errors();
  const std::string last = Saves().back();
  const int step = std::stoi(last.substr(5));
  EXPECT_THAT(command.output(),
              AllOf(HasSubstr("interrupted after " + std::to_string(step) + " of 100000 steps, " +
                              std::to_string(step - 3) + " in this run"),
                    HasSubstr("steps              4 to " + std::to_string(step))));
}

TEST_F(TrainStateTest, FlagsThatContradictStateAreRefused) {
  for (const char* flag : {"--save-state", "--resume"}) {
    EXPECT_THAT(UserError(Words({"--state", state_, flag, files_.path()})),
                HasSubstr(std::string("--state and ") + flag + ": "));
  }
  EXPECT_THAT(UserError(Words({"--state", state_, "--verify"})), HasSubstr("leave one of them"));
  EXPECT_THAT(UserError(Words({"--state="})), HasSubstr("--state is empty; name a directory"));
  EXPECT_THAT(UserError(Words({"--state", state_, "--set", "train.optimizer=\"none\""})),
              HasSubstr("need an optimizer"));
  EXPECT_THAT(UserError(Words({"--state", files_ / "no/state"})),
              HasSubstr("no does not exist, so " + (files_ / "no/state") + " cannot be made"));
  EXPECT_FALSE(fs::exists(state_));
}

TEST_F(TrainStateTest, AJobThatLeavesTheFiniteKeepsItsLastGoodSaves) {
  std::vector<std::string> diverging = {"--set", "train.steps=30"};
  for (const char* setting : {"train.learning_rate=1",
                              "train.warmup_steps=0",
                              "train.clip_norm=0",
                              "train.weight_decay=0",
                              "train.beta2=0",
                              "train.eps=1e-30",
                              "train.val_every=100"}) {
    diverging.insert(diverging.end(), {"--set", setting});
  }
  Run(Job({"--set", "train.steps=3"}));
  std::vector<std::string> saves;
  // The second time it goes on from the last good save, to come to the same end.
  for (int time = 0; time < 2; ++time) {
    Command bad(Job(diverging));
    EXPECT_EQ(bad.Wait(), 2) << bad.output();
    EXPECT_THAT(
        bad.errors(),
        AllOf(HasSubstr("the loss is no finite number since step"),
              ContainsRegex(
                  "the save after step [0-9]+ is (removed|given up), as the loss after it is no")));
    if (time == 0) saves = Saves();
    EXPECT_EQ(Saves().back(), saves.back());
    EXPECT_THAT(bad.output(), ContainsRegex("resumed after step [0-9]+ of 30\nstep .* loss [0-9]"));
  }
}

/// A file system of 3 MiB (root) takes a save of 1.2 MiB, but not three.
TEST(SlowTrainStateRoomTest, SavesThatWillNotFitAreRefusedBeforeTheFirstStep) {
  TemporaryDirectory small;
  TemporaryDirectory spill;
  const std::string result = testing::RunInChild([&]() -> std::string {
    const std::string why = testing::MountSmallExt4(small.path(), std::uint64_t{3} << 20);
    if (!why.empty()) return "skip: " + why;
    Command command({"train",
                     "--config",
                     kTinyConfig,
                     "--state",
                     small / "state",
                     "--set",
                     "tiers.nvme.directory=" + spill.path()});
    const int code = command.Wait();
    return std::to_string(code) + " " + command.output() + command.errors();
  });
  if (result.starts_with("skip")) GTEST_SKIP() << "needs root and loop devices: " << result;
  EXPECT_THAT(result,
              AllOf(::testing::StartsWith("2 "),
                    HasSubstr("for each of 2 kept and 1 being written"),
                    Not(HasSubstr("step    1/"))));
}

}  // namespace
}  // namespace sluice::tools
