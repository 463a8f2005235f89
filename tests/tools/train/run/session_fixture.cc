#include "tests/tools/train/run/session_fixture.h"

#include <filesystem>
#include <utility>

#include "base/status.h"
#include "runtime/engine/api/runtime_state.h"
#include "tests/support/project_paths.h"
#include "tests/support/status_matchers.h"
#include "tools/train/run/rescue.h"
#include "tools/train/run/saved_run.h"
#include "tools/train/state/run_state.h"

namespace sluice::tools {

using sluice::testing::IsOk;

void SessionTest::Make(const std::vector<std::string>& settings,
                       const std::vector<std::string>& flags) {
  ASSERT_THAT(MakeSession(settings, flags, {}), IsOk());
}

absl::Status SessionTest::MakeSession(const std::vector<std::string>& settings,
                                      const std::vector<std::string>& flags,
                                      const gpt::StopFn& stop) {
  Stop();
  std::vector<std::string> words = {"--config",
                                    testing::ProjectFile("configs/train-gpt-tiny.toml"),
                                    "--set=train.val_every=1000",
                                    "--set=tiers.nvme.directory=" + spill_.path()};
  for (const std::string& setting : settings) words.push_back("--set=" + setting);
  words.insert(words.end(), flags.begin(), flags.end());
  SLUICE_ASSIGN_OR_RETURN(flags_, ReadTrainFlags(words));
  std::string text;
  for (int i = 0; i < 500; ++i) text += "line " + std::to_string(i * 37 % 500) + "\n";
  SLUICE_ASSIGN_OR_RETURN(
      data_,
      gpt::Dataset::FromBytes(std::move(text), flags_.settings.train, flags_.settings.model));
  RunSaves state{.note = DescribeRun(flags_.settings, "cafe")};
  SLUICE_ASSIGN_OR_RETURN(state.directory, OpenStateDirectory(flags_, console_));
  SLUICE_ASSIGN_OR_RETURN(state.resumable, FindResumableSaves(flags_, "cafe"));
  hooks_.wrap_store = [this](auto store) { return faults_.Wrap(std::move(store)); };
  const auto make_runtime = [this](RuntimeOptions options) {
    options.trace = trace_;
    return internal::RuntimeAccess::Create(std::move(options), hooks_);
  };
  SLUICE_ASSIGN_OR_RETURN(session_,
                          TrainSession::Create(flags_,
                                               *data_,
                                               console_,
                                               std::move(state),
                                               {.stop = stop, .make_runtime = make_runtime}));
  signals_.emplace(*session_, console_, watch_);
  run_.emplace(TrainRun::Parts{.session = *session_, .console = console_, .signals = *signals_});
  return absl::OkStatus();
}

void SessionTest::Stop() {
  run_.reset();
  signals_.reset();
  session_.reset();
}

SessionTest::End SessionTest::RunUntilFailure(const std::function<void()>& amid) {
  ::testing::internal::CaptureStderr();
  const absl::Status ran = run_->Run();
  if (amid) amid();
  const bool failed = !session_->trainer().failure().ok();
  const LastLoss loss = run_->loss_is_finite() ? LastLoss::kFinite : LastLoss::kNotFinite;
  const int code = failed ? EndAfterFailure(ran, *session_, loss) : 0;
  // The runtime reports repeated failures at its end.
  Stop();
  return {code, ::testing::internal::GetCapturedStderr()};
}

std::string SessionTest::SavedUnbroken(const std::vector<std::string>& settings, int step) {
  std::vector<std::string> all = settings;
  all.push_back("train.save_every=");
  Make(all);
  if (HasFatalFailure()) return "";
  for (int i = 0; i < step; ++i) EXPECT_THAT(session_->trainer().Step().status(), IsOk());
  const std::string to = files_ / "unbroken";
  std::filesystem::create_directories(to);
  EXPECT_THAT(session_->trainer().SaveState(to, DescribeRun(flags_.settings, "cafe")), IsOk());
  Stop();
  return ReadWhole(to + "/optimizer.sluice");
}

}  // namespace sluice::tools
