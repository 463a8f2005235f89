// Saves of a run whose storage fails: one whole step with the bits of an undisturbed run, or a
// message that names the save that stands.
#include "tools/train/run/rescue.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/tools/train/run/session_fixture.h"
#include "tools/train/state/state_directory.h"

namespace sluice::tools {
namespace {

using sluice::testing::IsOk;
using ::testing::HasSubstr;

const std::vector<std::string> kPaged = {"model.layers=4",
                                         "train.batch=8",
                                         "train.micro_batches=2",
                                         "tiers.hbm.bytes=2MiB",
                                         "tiers.dram.bytes=1MiB",
                                         "tiers.nvme.bytes=24MiB",
                                         "train.steps=40"};

std::vector<std::string> PagedWith(const std::vector<std::string>& more) {
  std::vector<std::string> settings = kPaged;
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

long CountOf(const std::string& text, const std::string& part) {
  long count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

/// The number that follows `before`; -1: there is none.
int NumberAfter(const std::string& text, const std::string& before) {
  const std::size_t at = text.find(before);
  return at == std::string::npos ? -1 : std::atoi(text.c_str() + at + before.size());
}

enum class Moment { kBetweenMicroBatches, kWithinAnUpdate };

struct RescueCase {
  int error_number;
  Moment moment;
};

class RescueTest : public SessionTest, public ::testing::WithParamInterface<RescueCase> {
 protected:
  absl::Status Cause() const {
    return base::StatusFromErrno(GetParam().error_number, "write a spill file");
  }
  /// Makes all writes fail from the moment on.
  void FailAtTheMoment() {
    if (GetParam().moment == Moment::kWithinAnUpdate) {
      trace_ = [this](const TraceSpan& span) {
        if (span.track == "optimizer" && ++updates_ == 60) faults_.FailWrites(Cause());
      };
    }
  }
  void FailWhenAsked() {
    if (GetParam().moment != Moment::kBetweenMicroBatches) return;
    session_->trainer().SetStop([this] {
      if (session_->trainer().step() == 2) faults_.FailWrites(Cause());
      return false;
    });
  }
  /// Lets the run keep and rewrite its own slots, as on a disk that another program has filled.
  void KeepSlots() {
    faults_.FailWrites(absl::OkStatus());
    faults_.FailNewSlots(faults_.slots_written(), Cause());
  }

  std::atomic<int> updates_ = 0;
};

TEST_P(RescueTest, OneWholeStepIsSavedWhateverTheErrno) {
  FailAtTheMoment();
  ASSERT_NO_FATAL_FAILURE(Make(kPaged, {"--state", state_}));
  FailWhenAsked();
  const End end = RunUntilFailure([this] { KeepSlots(); });
  EXPECT_EQ(end.exit_code, 3);
  EXPECT_EQ(CountOf(end.errors, "a transfer of tensor"), 1) << end.errors;
  EXPECT_LE(CountOf(end.errors, "sluice: "), 4) << end.errors;
  EXPECT_THAT(end.errors, HasSubstr(std::string(base::ErrnoName(GetParam().error_number))));
  const int step = NumberAfter(end.errors, "saved step ");
  ASSERT_GT(step, 0) << end.errors;
  EXPECT_THAT(end.errors, HasSubstr("; --state " + state_ + " goes on from there\n"));
  const std::string saved = ReadWhole(state_ + "/" + SaveName(step) + "/optimizer.sluice");
  faults_.FailNewSlots(0, absl::OkStatus());
  trace_ = nullptr;
  EXPECT_TRUE(saved == SavedUnbroken(kPaged, step)) << "step " << step;
}

std::vector<RescueCase> EveryErrno() {
  std::vector<RescueCase> cases;
  for (const int error_number : {ENOSPC, EDQUOT, EFBIG, EIO}) {
    for (const Moment moment : {Moment::kBetweenMicroBatches, Moment::kWithinAnUpdate}) {
      cases.push_back({error_number, moment});
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, RescueTest, ::testing::ValuesIn(EveryErrno()), [](const auto& info) {
  const bool between = info.param.moment == Moment::kBetweenMicroBatches;
  return std::string(base::ErrnoName(info.param.error_number)) + (between ? "Between" : "Within");
});

class RescueOlderTest : public SessionTest {
 protected:
  /// Expects that the save of `step` stands, with the bits of an undisturbed run.
  void ExpectStands(const End& end, int step, const std::vector<std::string>& settings) {
    EXPECT_THAT(end.errors,
                HasSubstr("; the save of step " + std::to_string(step) + " in " + state_ +
                          " is as it was\n"));
    ExpectGood(end, step, settings);
  }
  void ExpectGood(const End& end, int step, const std::vector<std::string>& settings) {
    EXPECT_EQ(end.exit_code, 3) << end.errors;
    const std::string saved = ReadWhole(state_ + "/" + SaveName(step) + "/optimizer.sluice");
    EXPECT_TRUE(saved == SavedUnbroken(settings, step));
  }

  TemporaryDirectory second_;
};

/// A drive that fails holds pages that nothing else has.
TEST_F(RescueOlderTest, ADriveThatFailsLeavesTheSaveBefore) {
  hooks_.drive_rates = {1e9, 1e9};
  const std::vector<std::string> settings =
      PagedWith({"tiers.nvme.more_directories=[\"" + second_.path() + "\"]"});
  std::vector<std::string> saving = settings;
  saving.emplace_back("train.save_every=2 steps");
  ASSERT_NO_FATAL_FAILURE(Make(saving, {"--state", state_}));
  bool emptied = false;
  session_->trainer().SetStop([&] {
    if (session_->trainer().step() < 5 || std::exchange(emptied, true)) return false;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      const std::string target = std::filesystem::read_symlink(entry, gone);
      if (!gone && target.starts_with(second_.path() + "/")) {
        EXPECT_EQ(ftruncate(std::stoi(entry.path().filename()), 0), 0);
      }
    }
    return false;
  });
  const End end = RunUntilFailure();
  EXPECT_TRUE(emptied);
  // A page of a file that was cut lies behind its end, or, once a later write has made the file
  // longer, in a hole: two causes, four lines each, beside the drive, the op, the save and the end.
  const int causes = static_cast<int>(end.errors.find("checksum ") != std::string::npos) +
                     static_cast<int>(end.errors.find("(truncated)") != std::string::npos);
  EXPECT_EQ(CountOf(end.errors, " are lost: "), causes) << end.errors;
  EXPECT_LE(CountOf(end.errors, "sluice: "), 4 * causes + 4) << end.errors;
  // The save that was tried says it, once.
  EXPECT_THAT(end.errors, HasSubstr("nothing was saved: --state " + state_ + ": the save after"));
  EXPECT_EQ(CountOf(end.errors, " stands\n"), 1) << end.errors;
  EXPECT_EQ(CountOf(end.errors, "is as it was"), 0) << end.errors;
  ExpectGood(end, NumberAfter(end.errors, "; that of step "), settings);
}

/// Updates of the upper layers run in the backward, as there is no clip_norm. The changed layers
/// belong to the next step, whose other gradients are gone with the backward.
TEST_F(RescueOlderTest, UpdatesOfABackwardThatFailedCannotBeMadeAStep) {
  const std::vector<std::string> settings = PagedWith({"train.clip_norm=0"});
  std::atomic<bool> armed = false;
  trace_ = [&](const TraceSpan& span) {
    const bool upper = span.name.find("l3.") != std::string::npos;
    if (armed && upper && span.track == "optimizer") {
      faults_.FailReads(base::StatusFromErrno(EIO, "read a spill file"));
    }
  };
  ASSERT_NO_FATAL_FAILURE(Make(settings, {"--state", state_}));
  for (int i = 0; i < 2; ++i) ASSERT_THAT(session_->trainer().Step().status(), IsOk());
  ASSERT_THAT(session_->SaveState(), IsOk());
  armed = true;
  ::testing::internal::CaptureStderr();
  const absl::StatusOr<gpt::StepResult> third =
      session_->trainer().Step(gpt::UpdateTime::kDeferred);
  ASSERT_FALSE(third.ok());
  ASSERT_EQ(session_->trainer().step(), 2) << "the step must fail in its backward";
  armed = false;
  faults_.FailReads(absl::OkStatus());
  const int code = EndAfterFailure(third.status(), *session_, LastLoss::kFinite);
  Stop();
  const End end{code, ::testing::internal::GetCapturedStderr()};
  trace_ = nullptr;
  EXPECT_THAT(end.errors,
              HasSubstr("nothing was saved, as updates of step 3 began before its backward failed; "
                        "the save of step 2 in "));
  ExpectStands(end, 2, settings);
}

TEST_F(RescueOlderTest, ASaveThatWasBegunIsEndedWhereTheLastLossIsNoNumber) {
  ASSERT_NO_FATAL_FAILURE(Make(kPaged, {"--state", state_, "--set=train.save_every=1 steps"}));
  ASSERT_THAT(session_->trainer().Step(gpt::UpdateTime::kDeferred).status(), IsOk());
  ASSERT_THAT(session_->saver().SaveIfDue(1), IsOk());
  faults_.FailWrites(base::StatusFromErrno(ENOSPC, "write a spill file"));
  absl::Status failed;
  while (failed.ok()) failed = session_->trainer().Step(gpt::UpdateTime::kDeferred).status();
  faults_.FailWrites(absl::OkStatus());
  ::testing::internal::CaptureStderr();
  const int code = EndAfterFailure(failed, *session_, LastLoss::kNotFinite);
  Stop();
  const End end{code, ::testing::internal::GetCapturedStderr()};
  EXPECT_THAT(end.errors, HasSubstr("nothing was saved, as the last loss is no finite number; "));
  ExpectStands(end, 1, kPaged);
}

TEST_F(RescueOlderTest, AFailedSaveElsewhereSaysWhereTheOneOfResumeStands) {
  ASSERT_NO_FATAL_FAILURE(Make({"train.steps=9"}, {"--state", state_}));
  ASSERT_THAT(session_->trainer().Step().status(), IsOk());
  ASSERT_THAT(session_->SaveState(), IsOk());
  const std::string elsewhere = files_ / "elsewhere";
  std::filesystem::create_directory(elsewhere);
  const std::vector<std::string> flags = {"--resume", state_, "--save-state", elsewhere};
  ASSERT_NO_FATAL_FAILURE(Make({"train.steps=9"}, flags));
  ASSERT_THAT(session_->trainer().Step().status(), IsOk());
  std::filesystem::remove_all(elsewhere);
  EXPECT_THAT(std::string(session_->SaveState().message()),
              HasSubstr("; that of step 1 in " + state_ + "/step-0000001 stands"));
}

}  // namespace
}  // namespace sluice::tools
