#pragma once

#include <string>

#include "absl/status/status.h"
#include "tools/train/run/train_session.h"

namespace sluice::tools {

/// Whether the last step had a finite loss. Nothing is saved otherwise.
enum class LastLoss { kFinite, kNotFinite };

/// Makes one step whole after a failure of the session's trainer, and saves it to the session's
/// save_place(). Returns a sentence: the save, or the reason for which there is none, and the older
/// save that stands.
std::string RescueState(TrainSession& session, LastLoss loss);

/// Ends a run whose storage or device has failed: prints the failure and the sentence of
/// RescueState. Returns the exit code. It is not that of a user error, whatever the errno.
int EndAfterFailure(const absl::Status& failure, TrainSession& session, LastLoss loss);

}  // namespace sluice::tools
