#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_calls.h"
#include "runtime/optim/optimizer/parameter_groups.h"
#include "runtime/optim/parameters/parameter_copies.h"
#include "runtime/optim/parameters/parameter_entry.h"
#include "runtime/optim/parameters/parameter_table.h"
#include "runtime/optim/save/open_save.h"
#include "runtime/optim/save/save_state.h"
#include "runtime/optim/save/save_text.h"
#include "runtime/optim/step/step_runner.h"
#include "sluice/optimizer.h"

namespace sluice::optim {

/// Saves of an optimizer: the thread of the last one, and what a save and the optimizer must have
/// in common. Threads: externally synchronised. REQUIRES: no step runs, but for GiveUp.
class OptimizerSaves {
 public:
  /// Lifetime: all of these outlive the object.
  struct Options {
    Runtime& runtime;
    const OptimizerOptions& optimizer;
    PartSize parts;
    const ParameterTable& table;
    const ParameterGroups& groups;
    const ParameterCopies& copies;
  };
  explicit OptimizerSaves(const Options& options) : options_(options) {}

  /// Sets the calls of the system for saves; null: the kernel's.
  void SetFileCalls(base::FileCalls* calls) { file_calls_ = calls; }

  /// Starts a save once the last one is over. `step`: steps that the optimizer has done. Errors:
  /// FailedPrecondition (gradients that are added up), those of OffloadedOptimizer::StartSave.
  /// Lifetime: the runner outlives the save's thread.
  absl::StatusOr<std::shared_ptr<internal::SaveState>> Start(const std::string& directory,
                                                             std::string_view note,
                                                             std::int64_t step,
                                                             StepRunner& runner);
  /// Opens a save that the optimizer can load, and checks all of it, once the last save is over.
  /// Errors: InvalidArgument (a save of another optimizer), DataLoss.
  absl::StatusOr<OpenSave> Open(const std::string& directory);
  /// Writes the save's parameters and states, and the copies that are bound. Blocks.
  absl::Status Read(const OpenSave& save) const;
  /// Completes the last save if it is not over, as what it reads is about to change. Blocks.
  void Complete() {
    if (thread_ != nullptr && !thread_->over()) internal::SaveThread::Finish(std::move(thread_));
  }
  /// Ends the thread of the last save, and gives that up if it lacks parts.
  void GiveUp() { thread_.reset(); }

 private:
  /// Layout that a save and an optimizer must have in common, as JSON.
  std::string Layout() const;
  /// Text of a save, without the hashes.
  SaveText Describe(std::string_view note, std::int64_t step) const;

  const Options options_;
  base::FileCalls* file_calls_ = nullptr;
  std::unique_ptr<internal::SaveThread> thread_;  ///< thread of the last save
};

}  // namespace sluice::optim
