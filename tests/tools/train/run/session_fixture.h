#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/engine/setup/backends.h"
#include "sluice/events.h"
#include "tests/runtime/engine/faulty_store.h"
#include "tests/tools/temporary_directory.h"
#include "tools/support/console.h"
#include "tools/support/interrupt.h"
#include "tools/train/run/signal_answer.h"
#include "tools/train/run/train_run.h"
#include "tools/train/run/train_session.h"

namespace sluice::tools {

/// A run of the tiny configuration in this process, whose storage a test can make fail.
class SessionTest : public ::testing::Test {
 protected:
  /// Makes a session and its run with settings as of --set. The test fails if it cannot.
  void Make(const std::vector<std::string>& settings, const std::vector<std::string>& flags = {});
  /// Makes a session with a stop for TrainSession::Create. Returns its errors.
  absl::Status MakeSession(const std::vector<std::string>& settings,
                           const std::vector<std::string>& flags,
                           const gpt::StopFn& stop);
  /// Gives up the session, with its lock and its spill files.
  void Stop();
  /// End of a run: the exit code and standard error.
  struct End {
    int exit_code = 0;
    std::string errors;
  };
  /// Runs until storage fails, and ends as `sluice train` does. `amid`: called between the two.
  End RunUntilFailure(const std::function<void()>& amid = {});
  /// Bytes of a save after `step` of an undisturbed run with these settings.
  std::string SavedUnbroken(const std::vector<std::string>& settings, int step);

  TemporaryDirectory files_;
  TemporaryDirectory spill_;
  const std::string state_ = files_ / "state";
  testing::StoreFaults faults_;
  engine::BackendHooks hooks_;
  TraceSink trace_;  ///< sink of the Runtime's trace
  Console console_{Console::Mode::kJson};
  InterruptWatch watch_{{.signals = InterruptWatch::Options::Signals::kOfBatchSystems}};
  TrainFlags flags_;
  std::optional<gpt::Dataset> data_;
  std::unique_ptr<TrainSession> session_;
  std::optional<SignalAnswer> signals_;
  std::optional<TrainRun> run_;
};

}  // namespace sluice::tools
