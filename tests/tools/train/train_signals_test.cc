// Signals of batch systems, wherever a run is: what it saves, what it says, its exit code. Phases
// that would never end show by their end that the signal was answered within them.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sluice/optimizer.h"
#include "tests/support/status_matchers.h"
#include "tests/tools/train/train_command.h"

namespace sluice::tools {
namespace {

using sluice::testing::IsOk;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int kEnds[] = {SIGINT, SIGTERM, SIGHUP, SIGXCPU, SIGUSR2};

class TrainSignalsTest : public TrainCommandTest {
 protected:
  void SetUp() override { std::filesystem::create_directory(state_); }

  std::vector<std::string> Endless(std::vector<std::string> more) const {
    more.insert(more.end(), {"--set", "train.steps=100000", "--set", "train.val_every=100000"});
    return Words(more);
  }

  const std::string state_ = files_ / "state";
};

class TrainEndTest : public TrainSignalsTest, public ::testing::WithParamInterface<int> {};

TEST_P(TrainEndTest, SavesAndEnds) {
  Command command(Endless({"--save-state", state_}));
  ASSERT_TRUE(command.ReadUntil("step    2/")) << command.errors();
  command.Signal(GetParam());
  EXPECT_EQ(command.Wait(), 128 + GetParam()) << command.errors();
  const auto saved = OffloadedOptimizer::ReadSave(state_);
  ASSERT_THAT(saved, IsOk());
  EXPECT_THAT(command.output(),
              HasSubstr("interrupted after " + std::to_string(saved->step) + " of 100000 steps"));
  EXPECT_GE(saved->step, 2);
}

TEST_P(TrainEndTest, AFailedSaveIsAFailure) {
  Command command(Endless({"--save-state", state_}));
  ASSERT_TRUE(command.ReadUntil("step    2/")) << command.errors();
  std::filesystem::remove_all(state_);
  command.Signal(GetParam());
  EXPECT_EQ(command.Wait(), 3) << command.errors();
  EXPECT_THAT(command.errors(), HasSubstr("--save-state " + state_ + ": "));
}

TEST_P(TrainEndTest, EndsWhileTheModelIsMadeOrValidated) {
  Command command(Endless(
      {"--set", "train.val_batches=65536", "--set", "train.batch=32", "--save-state", state_}));
  ASSERT_TRUE(command.ReadUntil("text: ")) << command.errors();
  command.Signal(GetParam());
  EXPECT_EQ(command.Wait(), 128 + GetParam()) << command.errors();
  EXPECT_THAT(command.output(), Not(HasSubstr("step ")));
  EXPECT_TRUE(std::filesystem::is_empty(state_));
  EXPECT_THAT(spill_.Names(), IsEmpty());
}

TEST_P(TrainEndTest, EndsWithinAValidation) {
  Command begins(
      Words({"--set", "train.steps=1", "--set", "train.batch=32", "--save-state", state_}));
  ASSERT_EQ(begins.Wait(), 0) << begins.errors();
  Command command(
      Endless({"--set", "train.val_batches=65536", "--set", "train.batch=32", "--resume", state_}));
  ASSERT_TRUE(command.ReadUntil("resumed after step 1 ")) << command.errors();
  command.Signal(SIGUSR1);
  command.Signal(GetParam());
  EXPECT_EQ(command.Wait(), 128 + GetParam()) << command.errors();
  EXPECT_THAT(command.output(), HasSubstr("interrupted after 1 of 100000 steps, 0 in this run\n"));
}

TEST_P(TrainEndTest, EndsWhileTheRunInRamKeepsItWaiting) {
  Command command(
      Endless({"--set", "train.val_batches=65536", "--set", "train.batch=32", "--verify"}));
  ASSERT_TRUE(command.ReadUntil("text: ")) << command.errors();
  command.Signal(GetParam());
  EXPECT_EQ(command.Wait(), 128 + GetParam()) << command.errors();
}

TEST_P(TrainEndTest, EndsBeforeThereIsAText) {
  const std::string pipe = files_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  Command command(WordsOn(pipe, {}));
  // The open returns once the command has the pipe open: it waits for text that never comes.
  const int descriptor = open(pipe.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_GE(descriptor, 0);
  command.Signal(SIGUSR1);
  command.Signal(GetParam());
  EXPECT_EQ(command.Wait(), 128 + GetParam()) << command.errors();
  close(descriptor);
}

INSTANTIATE_TEST_SUITE_P(All, TrainEndTest, ::testing::ValuesIn(kEnds));

/// Signals also come while links are measured, tiers made and steps planned. The output says
/// nothing of these phases.
TEST_F(TrainSignalsTest, AnyMomentOfTheBeginningIsAnswered) {
  constexpr unsigned kSeed = 20261128;
  const std::vector<std::string> words = Endless({"--save-state", state_});
  const auto begin = std::chrono::steady_clock::now();
  Command whole(words);
  ASSERT_TRUE(whole.ReadUntil("step    3/")) << whole.errors();
  const std::chrono::duration<double> beginning = std::chrono::steady_clock::now() - begin;
  whole.Signal(SIGTERM);
  EXPECT_EQ(whole.Wait(), 128 + SIGTERM) << whole.errors();
  std::mt19937 random(kSeed);
  std::uniform_real_distribution<double> share(0, 1);
  for (int moment = 0; moment < 12; ++moment) {
    const std::chrono::duration<double> after = share(random) * beginning;
    SCOPED_TRACE("seed " + std::to_string(kSeed) + ", after " + std::to_string(after.count()) +
                 " s of " + std::to_string(beginning.count()));
    std::filesystem::remove_all(state_);
    std::filesystem::create_directory(state_);
    Command command(words);
    std::this_thread::sleep_for(after);
    command.Signal(SIGTERM);
    EXPECT_EQ(command.Wait(), 128 + SIGTERM) << command.errors();
    EXPECT_THAT(spill_.Names(), IsEmpty());
    if (command.output().find("step    1/") != std::string::npos) {
      EXPECT_THAT(OffloadedOptimizer::VerifySave(state_), IsOk());
    }
  }
}

TEST_F(TrainSignalsTest, Sigusr1SavesAndGoesOn) {
  Command command(Endless({"--save-state", state_}));
  ASSERT_TRUE(command.ReadUntil("step    2/")) << command.errors();
  command.Signal(SIGUSR1);
  ASSERT_TRUE(command.ReadUntil("step   60/")) << command.errors();
  const auto saved = OffloadedOptimizer::ReadSave(state_);
  ASSERT_THAT(saved, IsOk());
  command.Signal(SIGKILL);
  command.Wait();
  EXPECT_THAT(command.errors(),
              HasSubstr("sluice: SIGUSR1: saved step " + std::to_string(saved->step) + " in " +
                        state_ + "; the run goes on\n"));
}

TEST_F(TrainSignalsTest, Sigusr1WithoutAPlaceSaysSo) {
  Command command(Words({"--set", "train.steps=60"}));
  ASSERT_TRUE(command.ReadUntil("step    1/")) << command.errors();
  command.Signal(SIGUSR1);
  EXPECT_EQ(command.Wait(), 0) << command.errors();
  EXPECT_THAT(
      command.errors(),
      HasSubstr("sluice: SIGUSR1: nothing was saved, as neither --state nor --save-state names "
                "a directory; the run goes on\n"));
}

}  // namespace
}  // namespace sluice::tools
