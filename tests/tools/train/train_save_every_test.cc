// train.save_every: saves on the way, and what SIGKILL at any moment leaves.
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/tools/train/train_command.h"
#include "tools/train/files/corpus.h"
#include "tools/train/run/train_session.h"
#include "tools/train/state/state_directory.h"

namespace sluice::tools {
namespace {

namespace fs = std::filesystem;
using sluice::testing::IsOk;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

class TrainSaveEveryTest : public TrainCommandTest {
 protected:
  const std::string state_ = files_ / "state";
};

TEST_F(TrainSaveEveryTest, AnIntervalNeedsAPlaceAndAMeaning) {
  EXPECT_EQ(UserError(Words({"--set", "train.save_every=\"2 steps\""})),
            "sluice: \"train.save_every\" is set, but there is no place to save to; add --state "
            "DIR, or leave the key out\n");
  EXPECT_THAT(UserError(Words({"--state", state_, "--set", "train.save_every=\"2 weeks\""})),
              HasSubstr("\"train.save_every\" is \"2 weeks\": its unit is not known; allowed are"));
}

TEST_F(TrainSaveEveryTest, SaveStateIsReplacedOnTheWay) {
  fs::create_directory(state_);
  Command command(Words({"--save-state",
                         state_,
                         "--set",
                         "train.save_every=\"1 steps\"",
                         "--set",
                         "train.steps=100000"}));
  // A save is whole during the second step after its own.
  ASSERT_TRUE(command.ReadUntil("step    4/")) << command.errors();
  command.Signal(SIGKILL);
  EXPECT_EQ(command.Wait(), 128 + SIGKILL);
  const absl::StatusOr<OptimizerSave> save = OffloadedOptimizer::ReadSave(state_);
  ASSERT_THAT(save, IsOk());
  EXPECT_GE(save->step, 2);
}

TEST_F(TrainSaveEveryTest, TimeMakesSavesToo) {
  Command command(Words(
      {"--state", state_, "--set", "train.save_every=\"1 s\"", "--set", "train.steps=100000"}));
  const auto saves = [&] {
    const auto found = ListSaves(state_);
    return found.ok() && !found->empty();
  };
  ASSERT_TRUE(command.ReadUntil("step    1/")) << command.errors();
  for (int step = 2; !saves(); ++step) {
    ASSERT_TRUE(command.ReadUntil("/100000  loss")) << command.errors();
  }
  command.Signal(SIGKILL);
  EXPECT_EQ(command.Wait(), 128 + SIGKILL);
}

/// 200 kills of one training that saves after each step.
class SlowTrainKillSaveTest : public TrainSaveEveryTest {
 protected:
  void SetUp() override {
    const unsigned seed = std::random_device()();
    std::printf("seed %u\n", seed);
    random_.seed(seed);
    MakeReference();
  }

  std::vector<std::string> Job() const {
    return Words({"--state",
                  state_,
                  "--set",
                  "train.save_every=\"1 steps\"",
                  "--set",
                  "train.steps=100000",
                  "--set",
                  "train.val_every=100000",
                  "--set",
                  "train.batch=1",
                  "--set",
                  "train.group_sequences=1",
                  "--set",
                  "train.compute_threads=1"});
  }

  /// Makes the session of an undisturbed training of the job, in this process.
  void MakeReference() {
    const std::vector<std::string> job = Job();
    auto flags = ReadTrainFlags(std::span(job).subspan(1));
    ASSERT_THAT(flags, IsOk());
    flags_ = *std::move(flags);
    flags_.state_path.clear();
    auto corpus = LoadCorpus({.files = flags_.settings.texts});
    ASSERT_THAT(corpus, IsOk());
    const std::string note = DescribeRun(flags_.settings, corpus->hash);
    auto data = gpt::Dataset::FromText(
        std::move(corpus->text), flags_.settings.train, flags_.settings.model);
    ASSERT_THAT(data, IsOk());
    data_ = *std::move(data);
    auto session = TrainSession::Create(flags_, *data_, console_, {.note = note});
    ASSERT_THAT(session, IsOk());
    session_ = *std::move(session);
    note_ = note;
    fs::create_directory(files_ / "reference");
  }
  /// The save that the reference has after `step`. Steps only grow.
  const std::string& Reference(int step) {
    while (session_->trainer().step() < step) {
      EXPECT_THAT(session_->trainer().Step(), IsOk());
      EXPECT_THAT(session_->trainer().SaveState(files_ / "reference", note_), IsOk());
      saves_[session_->trainer().step()] = ReadWhole(files_ / "reference/optimizer.sluice");
    }
    saves_.erase(saves_.begin(), saves_.lower_bound(step - 2));
    return saves_[step];
  }

  /// Whether a directory is there that waits for its save.
  bool SaveUnderWay() const { return fs::exists(state_ + "/" + SaveName(NewestSave() + 1)); }
  std::chrono::microseconds Random(int most) {
    return std::chrono::microseconds(std::uniform_int_distribution<int>(0, most)(random_));
  }
  int NewestSave() const {
    const auto whole = ListSaves(state_);
    return whole.ok() && !whole->empty() ? whole->front().step : 0;
  }
  /// Every fourth kill comes at any time, the others some time after a save has begun: the next
  /// one, or one of the two that follow it.
  void KillAtSomeMoment(Command& command, int kill) {
    if (kill % 4 == 0) {
      std::this_thread::sleep_for(Random(1'500'000));
    } else {
      ASSERT_TRUE(!left_ || command.ReadUntil("removed ")) << command.errors();
      const int wanted = NewestSave() + std::uniform_int_distribution<int>(0, 2)(random_);
      const auto patience = Clock::now() + std::chrono::seconds(60);
      while (!(NewestSave() >= wanted && SaveUnderWay()) && Clock::now() < patience) usleep(200);
      std::this_thread::sleep_for(Random(6'000));
    }
    command.Signal(SIGKILL);
    EXPECT_EQ(command.Wait(), 128 + SIGKILL) << command.errors();
  }
  /// Compares the newest saves, of which each must have the bits of the reference. The newest step.
  int CheckSaves() {
    const auto saves = ListSaves(state_);
    if (!saves.ok() || saves->empty()) return 0;
    for (auto save = saves->rbegin(); save != saves->rend(); ++save) {
      if (save->step < session_->trainer().step() - 1) continue;  // compared before
      EXPECT_TRUE(ReadWhole(save->directory + "/optimizer.sluice") == Reference(save->step))
          << save->directory;
    }
    return saves->front().step;
  }

  std::mt19937 random_;
  Console console_{Console::Mode::kJson};
  TrainFlags flags_;
  std::optional<gpt::Dataset> data_;
  std::unique_ptr<TrainSession> session_;
  std::string note_;
  bool left_ = false;                 ///< true if the last kill left a save that is not whole
  std::map<int, std::string> saves_;  ///< reference saves by step
};

TEST_F(SlowTrainKillSaveTest, TwoHundredKillsChangeNoBit) {
  constexpr int kKills = 200;
  int during_saves = 0;
  int newest = 0;
  for (int kill = 0; kill < kKills && !HasFailure(); ++kill) {
    Command command(Job());
    KillAtSomeMoment(command, kill);
    // A save left by the kill before counts once.
    const bool cleaned = !left_ || command.output().find("removed ") != std::string::npos;
    left_ = SaveUnderWay();
    during_saves += left_ && cleaned ? 1 : 0;
    const int step = CheckSaves();
    EXPECT_GE(step, newest) << "a save that was durable is gone";
    newest = step;
  }
  std::printf("%d kills, %d while a save was written, %d steps\n", kKills, during_saves, newest);
  EXPECT_GE(2 * during_saves, kKills);
  EXPECT_GT(newest, 10);
}

}  // namespace
}  // namespace sluice::tools
