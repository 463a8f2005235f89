#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "sluice/runtime.h"
#include "tools/support/console.h"
#include "tools/support/output/safetensors_file.h"
#include "tools/support/trace_file.h"
#include "tools/train/report/link_rates.h"
#include "tools/train/report/memory_sampler.h"
#include "tools/train/report/run_monitor.h"
#include "tools/train/settings/train_flags.h"
#include "tools/train/state/run_state.h"
#include "tools/train/state/state_saver.h"
#include "workloads/gpt/compute/compute_rate.h"
#include "workloads/gpt/memory/paged_memory.h"
#include "workloads/gpt/model/dataset.h"
#include "workloads/gpt/training/trainer.h"

namespace sluice::tools {

using MakeRuntimeFn =
    std::function<absl::StatusOr<std::unique_ptr<Runtime>>(RuntimeOptions options)>;

struct SessionHooks {
  /// Asked between the pieces of TrainSession::Create; true: Cancelled. Empty: never.
  gpt::StopFn stop = {};
  /// For tests: makes a Runtime with faults.
  MakeRuntimeFn make_runtime = Runtime::Create;
};

/// Everything that a paged training run needs, made in order and taken down in the opposite one.
/// Threads: externally synchronised.
class TrainSession {
 public:
  /// Opens the output files (so that a bad path is found before the work), measures the links,
  /// makes Runtime and Trainer, checks the room for saves, and loads the state. `flags`, `data` and
  /// `console` outlive the session. Errors: those of each part.
  static absl::StatusOr<std::unique_ptr<TrainSession>> Create(const TrainFlags& flags,
                                                              const gpt::Dataset& data,
                                                              Console& console,
                                                              RunState state = {},
                                                              SessionHooks hooks = {});

  const TrainSettings& settings() const { return flags_.settings; }
  Runtime& runtime() { return *runtime_; }
  gpt::Trainer& trainer() { return *trainer_; }
  RunMonitor& monitor() { return *monitor_; }
  /// What the links give; the paced link's entry changes with its pace.
  std::map<std::string, LinkRates>& rates() { return rates_; }

  /// How fast the products of the trainer's threads were before the first step.
  const gpt::ComputeRate& compute() const { return compute_; }

  /// Ends the iteration of the last step, so that its schedule is known even when it was the first.
  absl::Status EndIteration() { return paged_->EndIteration(); }

  /// Saves of the state, on the way and at the end.
  StateSaver& saver() { return *saver_; }
  /// The directory of --state or --save-state; empty: none.
  const std::string& save_place() const {
    return flags_.state_path.empty() ? flags_.save_state_path : flags_.state_path;
  }
  /// Whether save_place() is that of --state.
  bool state_is_named() const { return !flags_.state_path.empty(); }
  /// Whether the trainer made steps that no save holds.
  bool has_unsaved_steps() const { return saver_->HasUnsaved(trainer_->step()); }
  /// Saves the trainer's state, as it is after its last step, to save_place(), if there is one and
  /// no save holds that step. Errors: those of StateSaver::SaveNow.
  absl::Status SaveState();
  /// Waits for the saves that were begun, where none is made at the end. What fails is a warning.
  void EndBegunSaves();
  /// An update has left parameters that are no finite numbers: a save of them is removed.
  void WithdrawLastSave();
  /// Steps that were done when the run began.
  int steps_before() const { return steps_before_; }
  /// False once an update has left a parameter that is no finite number.
  absl::StatusOr<bool> HasFiniteParameters();

  /// Whether --save, --state and --save-state are carried out at the end.
  enum class Saves { kWritten, kLeftAlone };
  /// Writes the files that the flags ask for: each, whatever becomes of the others. What failed,
  /// by flag and path.
  std::vector<absl::Status> WriteOutputs(Saves saves);

 private:
  TrainSession(const TrainFlags& flags, RunState state, Console& console, SessionHooks hooks)
      : flags_(flags),
        state_(std::move(state)),
        console_(console),
        make_runtime_(std::move(hooks.make_runtime)),
        stop_(std::move(hooks.stop)) {}
  /// Shows the next phase, unless the stop says otherwise.
  absl::Status BeginPhase(const std::string& what);
  absl::Status OpenOutputs();
  absl::Status MakeRuntime();
  absl::Status MakeTrainer(const gpt::Dataset& data);
  void MeasureProducts();
  absl::Status WriteRecord();
  /// `any`: set when there was one.
  absl::Status RecordKey(std::string_view key, bool* any);
  absl::Status WriteModel();
  absl::Status Resume();
  absl::Status BeginFromWeights();
  void MakeSaver();

  const TrainFlags& flags_;
  RunState state_;
  int steps_before_ = 0;
  std::string resumed_from_;  ///< directory of the save that the run goes on from
  Console& console_;
  const MakeRuntimeFn make_runtime_;
  /// The stop of Create, while that runs.
  gpt::StopFn stop_;
  std::unique_ptr<MemorySampler> memory_;
  std::unique_ptr<TraceFile> trace_;
  std::unique_ptr<SafetensorsFile> model_;
  std::unique_ptr<AtomicFile> record_;
  std::map<std::string, LinkRates> rates_;
  gpt::ComputeRate compute_;
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<RunMonitor> monitor_;
  std::unique_ptr<gpt::PagedMemory> paged_;
  std::unique_ptr<gpt::Trainer> trainer_;
  std::unique_ptr<StateSaver> saver_;
};

}  // namespace sluice::tools
