#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/train/run/saved_run.h"
#include "tools/train/settings/train_flags.h"
#include "tools/train/state/state_directory.h"

namespace sluice::tools {

/// Saves that a run may go on from, the newest first; none: it begins.
struct ResumableSaves {
  struct Candidate {
    FoundSave save;
    SavedRun run;
  };
  std::string flag;       ///< flag that names the directory, for messages
  std::string directory;  ///< directory that all saves are in
  std::vector<Candidate> candidates;
  /// Saves that were passed over, each with the reason: "step-0000120: ...".
  std::vector<std::string> passed_over;
  /// Reason for which the newest save was passed over.
  absl::Status first_refusal;

  /// Number of steps of the newest candidate; 0: there is none.
  int step() const { return candidates.empty() ? 0 : candidates.front().run.step; }
};

/// Reads the descriptions of the saves under --state or --resume. Errors:
/// - the newest save's (those of CheckSavedRun): no run with these settings may go on from any
/// - all steps are done (--resume only)
/// - there is no save (--resume only)
/// - an error that tells nothing of a save (EMFILE, EIO)
absl::StatusOr<ResumableSaves> FindResumableSaves(const TrainFlags& flags,
                                                  const std::string& text_hash);

/// Loads the newest save that verifies, and returns it. Newer ones that are damaged, incomplete or
/// of another run are passed over, and noted in `resumable`. Errors: that of the newest save, if
/// none verifies; at once, an error that tells nothing of the save. REQUIRES: there are candidates.
absl::StatusOr<ResumableSaves::Candidate> LoadNewest(
    const std::function<absl::Status(const std::string& directory)>& load,
    ResumableSaves* resumable);

}  // namespace sluice::tools
