// Times that a run keeps of its steps for the bound. The run is in this process, on the tiny
// configuration.
#include "tools/train/run/train_run.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/project_paths.h"
#include "tests/support/status_matchers.h"
#include "tests/tools/temporary_directory.h"
#include "tools/support/interrupt.h"

namespace sluice::tools {
namespace {

using sluice::testing::IsOk;

class TrainRunTest : public ::testing::Test {
 protected:
  /// Trains with settings as of --set; the test fails where it cannot.
  void Train(const std::vector<std::string>& settings) {
    std::vector<std::string> words = {"--config",
                                      testing::ProjectFile("configs/train-gpt-tiny.toml"),
                                      "--set=train.val_every=100",
                                      "--set=tiers.nvme.directory=" + spill_.path()};
    for (const std::string& setting : settings) words.push_back("--set=" + setting);
    auto flags = ReadTrainFlags(words);
    ASSERT_THAT(flags, IsOk());
    flags_ = *std::move(flags);
    auto data = gpt::Dataset::FromBytes(
        std::string(5000, 'x'), flags_.settings.train, flags_.settings.model);
    ASSERT_THAT(data, IsOk());
    data_ = *std::move(data);
    auto session = TrainSession::Create(flags_, *data_, console_);
    ASSERT_THAT(session, IsOk());
    session_ = *std::move(session);
    signals_.emplace(*session_, console_, watch_);
    run_.emplace(TrainRun::Parts{.session = *session_, .console = console_, .signals = *signals_});
    ASSERT_THAT(run_->Run(), IsOk());
    report_ = run_->TakeReport();
    ASSERT_EQ(report_.steps.size(), static_cast<std::size_t>(flags_.settings.train.steps));
  }

  /// Steps of a key that count.
  std::size_t Judged(const std::string& key) const {
    return static_cast<std::size_t>(
        std::count_if(report_.steps.begin(), report_.steps.end(), [&](const StepRecord& step) {
          return step.judged && step.key == key;
        }));
  }
  /// Checks that each key's ops have the times of the judged steps alone.
  void ExpectTimesOfJudgedSteps() const {
    EXPECT_GE(Judged(MainKey(report_)), 4u);
    for (const StepRecord& step : report_.steps) {
      EXPECT_EQ(run_->op_times().iterations(step.key), Judged(step.key)) << step.key;
    }
  }

  TemporaryDirectory spill_;
  Console console_{Console::Mode::kJson};
  InterruptWatch watch_;
  TrainFlags flags_;
  std::optional<gpt::Dataset> data_;
  std::unique_ptr<TrainSession> session_;
  std::optional<SignalAnswer> signals_;
  std::optional<TrainRun> run_;
  RunReport report_;
};

TEST_F(TrainRunTest, OpsHaveTheirTimesOfEveryStep) {
  ASSERT_NO_FATAL_FAILURE(Train({"train.steps=9"}));
  ExpectTimesOfJudgedSteps();
  const std::string last = report_.steps.back().key;
  EXPECT_NE(last, MainKey(report_));
  EXPECT_EQ(run_->op_times().iterations(last), 1u) << "nothing follows it";
}

TEST_F(TrainRunTest, TimesFromBeforeThePaceAreForgotten) {
  ASSERT_NO_FATAL_FAILURE(Train({"train.steps=9", "device.emulated.load=1"}));
  EXPECT_FALSE(report_.steps[1].judged);
  EXPECT_EQ(report_.steps[1].key, MainKey(report_));
  ExpectTimesOfJudgedSteps();
}

TEST_F(TrainRunTest, TimesFromBeforeItIsKnownWhatIsMadeAgainAreForgotten) {
  // The link needs 0.6 s a step, so that recomputing is the better choice on any machine.
  ASSERT_NO_FATAL_FAILURE(Train({"train.steps=9",
                                 "train.recompute=planned",
                                 "device.emulated.in_bytes_per_second=2000000",
                                 "device.emulated.out_bytes_per_second=2000000"}));
  ASSERT_TRUE(report_.recompute.has_value());
  ASSERT_GT(report_.recompute->layers_recomputed, 0);
  EXPECT_FALSE(report_.steps[1].judged);
  ExpectTimesOfJudgedSteps();
}

TEST_F(TrainRunTest, TheBoundTakesTheLeastTimeOfEachOp) {
  // The bound is the time of the ops, since everything fits.
  ASSERT_NO_FATAL_FAILURE(
      Train({"train.steps=12", "tiers.hbm.bytes=32MiB", "tiers.dram.bytes=32MiB"}));
  Schedule schedule = session_->runtime().RecordedSchedule(MainKey(report_)).value();
  const auto bound = [&] {
    return std::max(VolumeBoundSeconds(report_),
                    ScheduleBoundSeconds(schedule,
                                         flags_.settings.runtime,
                                         session_->rates(),
                                         std::numeric_limits<double>::infinity()));
  };
  EXPECT_GT(bound(), report_.bound_seconds) << "no step is the fastest in each of its ops";
  run_->op_times().SetLeast(&schedule);
  EXPECT_EQ(bound(), report_.bound_seconds);
}

}  // namespace
}  // namespace sluice::tools
