// What a run keeps of its steps for the bound. In this process, on the tiny configuration.
#include "tools/train/train_run.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/tools/temporary_directory.h"
#include "tools/interrupt.h"

namespace sluice::tools {
namespace {

using sluice::testing::IsOk;

/// A run that has ended, and what it ran on.
class EndedRun {
 public:
  explicit EndedRun(const std::vector<std::string>& keys, bool compares_updates = false) {
    Run(keys, compares_updates);
  }

  /// Steps of a key that count.
  std::size_t Judged(const std::string& key) const {
    return std::count_if(report.steps.begin(), report.steps.end(), [&](const StepRecord& step) {
      return step.judged && step.key == key;
    });
  }

  std::unique_ptr<TrainSession> session;
  std::unique_ptr<TrainRun> run;
  RunReport report;

 private:
  void Run(const std::vector<std::string>& keys, bool compares_updates) {
    std::vector<std::string> words = {"--config",
                                      std::string(SLUICE_CONFIG_DIRECTORY) + "/train-gpt-tiny.toml",
                                      "--set=train.val_every=100",
                                      "--set=tiers.nvme.directory=" + spill_.path()};
    for (const std::string& key : keys) words.push_back("--set=" + key);
    flags_ = ReadTrainFlags(words).value();
    data_ = gpt::Dataset::FromBytes(
                std::string(5000, 'x'), flags_.settings.train, flags_.settings.model)
                .value();
    session = TrainSession::Create(flags_, *data_, console_).value();
    run = std::make_unique<TrainRun>(TrainRun::Parts{.session = *session,
                                                     .console = console_,
                                                     .watch = watch_,
                                                     .compares_updates = compares_updates});
    ASSERT_THAT(run->Run(), IsOk());
    report = run->TakeReport();
  }

  TemporaryDirectory spill_;
  Console console_{Console::Mode::kJson};
  InterruptWatch watch_;
  TrainFlags flags_;
  std::optional<gpt::Dataset> data_;
};

TEST(TrainRunTest, OpsHaveTheirTimesOfEveryStep) {
  const EndedRun ended({"train.steps=9"});
  const std::string key = MainKey(ended.report);
  EXPECT_GE(ended.Judged(key), 6u);
  EXPECT_EQ(ended.run->op_times().iterations(key), ended.Judged(key));
  const std::string last = ended.report.steps.back().key;
  EXPECT_NE(last, key);
  EXPECT_EQ(ended.run->op_times().iterations(last), 1u) << "nothing follows it";
}

TEST(TrainRunTest, TimesFromBeforeThePaceAreForgotten) {
  const EndedRun ended({"train.steps=9", "device.emulated.load=1"});
  const std::string key = MainKey(ended.report);
  EXPECT_FALSE(ended.report.steps[1].judged);
  EXPECT_EQ(ended.report.steps[1].key, key);
  EXPECT_GE(ended.Judged(key), 4u);
  EXPECT_EQ(ended.run->op_times().iterations(key), ended.Judged(key));
}

TEST(TrainRunTest, TimesFromBeforeItIsKnownWhatIsMadeAgainAreForgotten) {
  // So slow a link that making again is always the better choice.
  const EndedRun ended({"train.steps=9",
                        "train.recompute=planned",
                        "device.emulated.in_bytes_per_second=20000000",
                        "device.emulated.out_bytes_per_second=20000000"});
  ASSERT_TRUE(ended.report.recompute.has_value());
  ASSERT_GT(ended.report.recompute->layers_recomputed, 0);
  for (const StepRecord& step : ended.report.steps) {
    EXPECT_EQ(ended.run->op_times().iterations(step.key), ended.Judged(step.key)) << step.key;
  }
}

/// Blocks of ten: in the second one no parameter is updated.
TEST(TrainRunTest, StepsThatAreNotComparedDoNotCount) {
  const EndedRun ended({"train.steps=20"}, /*compares_updates=*/true);
  std::size_t not_judged = 0;
  for (const StepRecord& step : ended.report.steps) {
    not_judged += step.judged ? 0 : 1;
    EXPECT_EQ(ended.run->op_times().iterations(step.key), ended.Judged(step.key)) << step.key;
  }
  EXPECT_GT(not_judged, 0u);
}

TEST(TrainRunTest, TheBoundTakesTheLeastTimeOfEachOp) {
  // With room for all it is the time of the ops.
  const EndedRun ended({"train.steps=12", "tiers.hbm.bytes=32MiB", "tiers.dram.bytes=32MiB"});
  const RuntimeOptions& options = ended.session->settings().runtime;
  Schedule schedule = ended.session->runtime().RecordedSchedule(MainKey(ended.report)).value();
  const auto bound = [&] {
    return std::max(
        VolumeBoundSeconds(ended.report),
        ScheduleBoundSeconds(
            schedule, options, ended.session->rates(), std::numeric_limits<double>::infinity()));
  };
  EXPECT_GT(bound(), ended.report.bound_seconds) << "no step is the fastest in each of its ops";
  ended.run->op_times().SetLeast(&schedule);
  EXPECT_EQ(bound(), ended.report.bound_seconds);
}

}  // namespace
}  // namespace sluice::tools
