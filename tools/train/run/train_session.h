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
  /// Function asked between the pieces of TrainSession::Create. True: Cancelled. Empty: nothing is
  /// asked.
  gpt::StopFn stop = {};
  /// Function that makes the Runtime; tests make one with faults.
  MakeRuntimeFn make_runtime = Runtime::Create;
};

/// All parts of a paged training run, made in order and taken down in the opposite one. Threads:
/// externally synchronised.
class TrainSession {
 public:
  /// Opens the output files first, so that a bad path is found before the work. Then measures the
  /// links, makes Runtime and Trainer, checks the room for saves, and loads the state. `flags`,
  /// `data` and `console` outlive the session. Errors: those of each part.
  static absl::StatusOr<std::unique_ptr<TrainSession>> Create(const TrainFlags& flags,
                                                              const gpt::Dataset& data,
                                                              Console& console,
                                                              RunSaves state = {},
                                                              SessionHooks hooks = {});

  const TrainSettings& settings() const { return flags_.settings; }
  Runtime& runtime() { return *runtime_; }
  gpt::Trainer& trainer() { return *trainer_; }
  RunMonitor& monitor() { return *monitor_; }
  /// Rates of the links. The paced link's entry changes with its pace.
  std::map<std::string, LinkRates>& rates() { return rates_; }

  /// Rate of the matrix products of the trainer's threads before the first step.
  const gpt::ComputeRate& compute() const { return compute_; }

  /// Ends the iteration of the last step, so that its schedule is known even when it was the first.
  absl::Status EndIteration() { return paged_->EndIteration(); }

  /// Saver of the state, on the way and at the end.
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
  /// Waits for the saves that were begun, where none is made at the end. A failure is a warning.
  void EndBegunSaves();
  /// Removes a save of parameters that an update has left as no finite numbers.
  void WithdrawLastSave();
  /// Number of steps that were done when the run began.
  int steps_before() const { return steps_before_; }
  /// Whether all parameters are finite numbers after the updates so far.
  absl::StatusOr<bool> HasFiniteParameters();

  /// Whether --save, --state and --save-state are carried out at the end.
  enum class Saves { kWritten, kLeftAlone };
  /// Writes the files that the flags ask for, each of them whatever becomes of the others. Returns
  /// the failures, which name flag and path.
  std::vector<absl::Status> WriteOutputs(Saves saves);

 private:
  TrainSession(const TrainFlags& flags, RunSaves state, Console& console, SessionHooks hooks)
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
  /// Appends the schedule of the key. `any`: set when there was one.
  absl::Status RecordKey(std::string_view key, bool* any);
  absl::Status WriteModel();
  absl::Status Resume();
  absl::Status BeginFromWeights();
  void MakeSaver();

  const TrainFlags& flags_;
  RunSaves state_;
  int steps_before_ = 0;
  std::string resumed_from_;  ///< directory of the save that the run goes on from
  Console& console_;
  const MakeRuntimeFn make_runtime_;
  /// The stop function of Create, while Create runs.
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
