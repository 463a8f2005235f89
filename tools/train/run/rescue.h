#pragma once

#include <string>

#include "absl/status/status.h"
#include "tools/train/run/train_session.h"

namespace sluice::tools {

/// Whether the last step had a finite loss; else nothing is saved.
enum class LastLoss { kFinite, kNotFinite };

/// After a failure of the session's trainer: makes one step whole and saves it to the session's
/// save_place(). What was saved, or why nothing was and which older save stands, as a sentence.
std::string RescueState(TrainSession& session, LastLoss loss);

/// Ends a run whose storage or device has failed: says what failed, and what RescueState says. The
/// exit code: whatever the errno, that is no fault of the flags.
int EndAfterFailure(const absl::Status& failure, TrainSession& session, LastLoss loss);

}  // namespace sluice::tools
