// Signals at moments that a test of the command cannot wait for, and the saves after them.
#include <signal.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/tools/train/run/session_fixture.h"
#include "tools/train/conclusion.h"
#include "tools/train/run/rescue.h"
#include "tools/train/state/state_directory.h"

namespace sluice::tools {
namespace {

using sluice::testing::IsOk;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RunSignalsTest : public SessionTest {
 protected:
  /// Signals the run once its trainer asks whether to stop while `when` holds.
  void SignalWhen(std::function<bool()> when) {
    session_->trainer().SetStop([this, when = std::move(when)] {
      if (!signalled_ && when()) {
        signalled_ = true;
        raise(SIGTERM);
      }
      return signals_->Attend();
    });
  }
  using ValueFn = std::function<float(const std::string& parameter, std::uint64_t element)>;
  void Fill(const ValueFn& value) {
    EXPECT_THAT(
        session_->trainer().FillParameters(
            [&](const std::string& parameter, std::uint64_t element, std::span<float> values) {
              for (float& each : values) each = value(parameter, element++);
              return absl::OkStatus();
            }),
        IsOk());
  }
  /// Sets one parameter to minus infinity, but keeps the loss finite. The first element that the
  /// head reads is 1. So the byte 255, which no text here has, gets a logit of minus infinity.
  void FillWithInfinity() {
    const auto width = static_cast<std::uint64_t>(flags_.settings.model.width);
    Fill([width](const std::string& parameter, std::uint64_t element) {
      if (parameter == "tokens" && element == 255 * width) {
        return -std::numeric_limits<float>::infinity();
      }
      if (parameter == "final.gain") return element == 0 ? 0.0F : 1.0F;
      if (parameter == "final.bias") return element == 0 ? 1.0F : 0.0F;
      if (parameter.ends_with("gain")) return 1.0F;
      return parameter.ends_with("bias") ? 0.0F
                                         : static_cast<float>(element * 37 % 101) * 4e-4F - 0.02F;
    });
  }
  End RunToItsEnd() {
    ::testing::internal::CaptureStderr();
    ::testing::internal::CaptureStdout();
    EXPECT_THAT(run_->Run(), IsOk());
    const int code = Conclude(*run_, *session_, flags_, console_, watch_);
    Stop();
    ::testing::internal::GetCapturedStdout();
    return {code, ::testing::internal::GetCapturedStderr()};
  }
  std::vector<int> SavedSteps() const {
    std::vector<int> steps;
    // A directory that has taken no save went with its run.
    const absl::StatusOr<std::vector<FoundSave>> saves = ListSaves(state_);
    if (absl::IsNotFound(saves.status())) return steps;
    for (const FoundSave& save : saves.value()) steps.push_back(save.step);
    return steps;
  }

  bool signalled_ = false;
};

TEST_F(RunSignalsTest, NothingIsSavedInAValidationWhileTheLastLossIsNoNumber) {
  ASSERT_NO_FATAL_FAILURE(Make(
      {"train.val_every=2", "train.val_batches=3", "train.not_finite_steps=0", "train.steps=20"},
      {"--state", state_}));
  // The loss of step 1 is a number yet.
  FillWithInfinity();
  SignalWhen([this] { return session_->trainer().step() == 2; });
  const End end = RunToItsEnd();
  EXPECT_TRUE(signalled_);
  EXPECT_EQ(end.exit_code, 128 + SIGTERM);
  EXPECT_THAT(end.errors, HasSubstr("the last loss is no finite number: --save and --state wrote"));
  EXPECT_THAT(SavedSteps(), IsEmpty());
}

const std::vector<std::string> kTwoMicroBatches = {"train.micro_batches=2", "train.steps=20"};

TEST_F(RunSignalsTest, ParametersThatAreNoNumbersAreNotSaved) {
  ASSERT_NO_FATAL_FAILURE(Make(kTwoMicroBatches, {"--state", state_}));
  FillWithInfinity();
  SignalWhen([this] { return session_->trainer().step() == 1; });
  const End end = RunToItsEnd();
  EXPECT_EQ(end.exit_code, 128 + SIGTERM);
  EXPECT_THAT(end.errors,
              HasSubstr("the last update left parameters that are no finite numbers: --save and "
                        "--state wrote nothing"));
  EXPECT_THAT(SavedSteps(), IsEmpty());
}

class RunSignalsSaveTest : public RunSignalsTest,
                           public ::testing::WithParamInterface<const char*> {};

TEST_P(RunSignalsSaveTest, ABegunSaveOfParametersThatAreNoNumbersIsGivenUp) {
  const std::string flag = GetParam();
  std::filesystem::create_directories(files_ / flag);
  std::vector<std::string> settings = kTwoMicroBatches;
  settings.emplace_back("train.save_every=1 steps");
  ASSERT_NO_FATAL_FAILURE(Make(settings, {flag, files_ / flag}));
  FillWithInfinity();
  SignalWhen([this] { return session_->trainer().step() == 1; });
  const End end = RunToItsEnd();
  EXPECT_EQ(end.exit_code, 128 + SIGTERM);
  EXPECT_THAT(end.errors,
              HasSubstr(flag + ": the save after step 1 is given up, as its parameters are no "
                               "finite numbers; there is none before it"));
  EXPECT_THAT(ListSaves(files_ / flag).value(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(All, RunSignalsSaveTest, ::testing::Values("--state", "--save-state"));

TEST_P(RunSignalsSaveTest, ASaveThatASignalAsksForHasNumbers) {
  const std::string flag = GetParam();
  std::filesystem::create_directories(files_ / flag);
  ASSERT_NO_FATAL_FAILURE(Make(kTwoMicroBatches, {flag, files_ / flag}));
  FillWithInfinity();
  int asked = 0;
  session_->trainer().SetStop([&, this] {
    if (session_->trainer().step() > 0) raise(asked++ == 0 ? SIGUSR1 : SIGTERM);
    return signals_->Attend();
  });
  const End end = RunToItsEnd();
  EXPECT_THAT(end.errors,
              HasSubstr("SIGUSR1: nothing was saved, as the last update left parameters that are "
                        "no finite numbers; the run goes on"));
  EXPECT_THAT(ListSaves(files_ / flag).value(), IsEmpty());
}

TEST_P(RunSignalsSaveTest, AStepThatEndsWithItsUpdateWritesNoSaveThatLedToNoNumber) {
  const std::string flag = GetParam();
  std::filesystem::create_directories(files_ / flag);
  // A step that a validation follows makes its update at its end.
  ASSERT_NO_FATAL_FAILURE(Make({"train.val_every=2",
                                "train.not_finite_steps=1",
                                "train.steps=20",
                                "train.save_every=1 steps"},
                               {flag, files_ / flag}));
  FillWithInfinity();
  ::testing::internal::CaptureStderr();
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(run_->Run().code(), absl::StatusCode::kFailedPrecondition);
  Stop();
  ::testing::internal::GetCapturedStdout();
  EXPECT_THAT(
      ::testing::internal::GetCapturedStderr(),
      HasSubstr(flag + ": the save after step 1 is given up, as the loss after it is no finite "
                       "number; there is none before it"));
  EXPECT_THAT(ListSaves(files_ / flag).value(), IsEmpty());
}

/// A signal in any phase before the first step is answered before the next phase, and costs no
/// save. The phases load the topology, measure the links, and make the tiers and the model.
TEST_F(RunSignalsTest, ASignalInAnyPhaseBeforeTheFirstStepIsAnsweredByTheNext) {
  ASSERT_NO_FATAL_FAILURE(Make({"train.steps=20"}, {"--state", state_}));
  ASSERT_THAT(session_->trainer().Step().status(), IsOk());
  ASSERT_THAT(session_->SaveState(), IsOk());
  const std::string saved = ReadWhole(state_ + "/step-0000001/optimizer.sluice");
  std::vector<std::string> phases;
  for (std::size_t phase = 0; phase < 3; ++phase) {
    SCOPED_TRACE(phase);
    std::size_t asked = 0;
    const auto stop = [&] { return asked++ > phase; };
    const absl::Status made = MakeSession({"train.steps=20"}, {"--state", state_}, stop);
    Stop();
    EXPECT_TRUE(absl::IsCancelled(made)) << made;
    EXPECT_EQ(asked, phase + 2) << "the run must end at once";
    phases.emplace_back(made.message());
    EXPECT_EQ(ReadWhole(state_ + "/step-0000001/optimizer.sluice"), saved);
    EXPECT_THAT(spill_.Names(), IsEmpty());
  }
  EXPECT_THAT(phases,
              ElementsAre("stopped before making the tiers",
                          "stopped before creating the model",
                          "stopped as asked for"));
}

}  // namespace
}  // namespace sluice::tools
