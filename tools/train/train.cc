#include "tools/train/train.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "sluice/units.h"
#include "tools/support/arguments.h"
#include "tools/support/console.h"
#include "tools/support/exit_code.h"
#include "tools/support/interrupt.h"
#include "tools/train/conclusion.h"
#include "tools/train/files/corpus.h"
#include "tools/train/files/initial_weights.h"
#include "tools/train/run/rescue.h"
#include "tools/train/run/saved_run.h"
#include "tools/train/run/signal_answer.h"
#include "tools/train/run/train_child.h"
#include "tools/train/run/train_run.h"
#include "tools/train/run/train_session.h"
#include "tools/train/run/verifier.h"
#include "tools/train/settings/budget_check.h"
#include "tools/train/settings/memory_check.h"
#include "tools/train/settings/train_flags.h"
#include "tools/train/state/resume.h"
#include "tools/train/state/run_state.h"

namespace sluice::tools {
namespace {

void PrintHelp() {
  fmt::print(
      "Usage: sluice train --config FILE [FLAG ...]\n\n"
      "Trains a byte-level GPT whose tensors live in hbm, dram and nvme under the configured\n"
      "budgets, and says how close to the bound that was.\n\n{}",
      DescribeFlags(TrainFlagSpecs()));
}

int PrintConfig(std::span<const std::string> words) {
  const absl::StatusOr<std::string> config = WriteConfig(words);
  if (!config.ok()) return Fail(config.status());
  fmt::print("{}", *config);
  return kExitDone;
}

absl::StatusOr<Corpus> LoadText(const TrainFlags& flags, Console& console) {
  SLUICE_ASSIGN_OR_RETURN(
      Corpus corpus,
      LoadCorpus(
          {.files = flags.settings.texts,
           .files_name = flags.texts_name,
           .start_directory = std::filesystem::path(flags.config.source).parent_path().string()}));
  console.Print(fmt::format("text: {} in {} file{}, xxh3 {}\n",
                            ToString(Bytes(corpus.text.size())),
                            corpus.files,
                            corpus.files == 1 ? "" : "s",
                            corpus.hash));
  return corpus;
}

/// Whether --init's weights are the model's: before the work.
absl::Status CheckInitialWeights(const TrainFlags& flags) {
  if (flags.init_path.empty()) return absl::OkStatus();
  const auto weights = InitialWeights::Open(flags.init_path, flags.settings.model);
  return base::Annotate(weights.status(), "--init");
}

/// Whether steps follow once the pace is set, or the recomputation decided. These steps judge it,
/// so there must be some.
absl::Status CheckJudgedSteps(const TrainFlags& flags, int steps_done) {
  const TrainSettings& settings = flags.settings;
  const int before = flags.verify ? kBlockSteps : kUnpacedStepsAlone;
  const bool paced = settings.emulated_load != 0;
  const bool planned = settings.train.recompute == gpt::Recompute::kPlanned;
  if ((!paced && !planned) || settings.train.steps - steps_done > before) {
    return absl::OkStatus();
  }
  const std::string done =
      steps_done > 0 ? fmt::format(", of which {} are done", steps_done) : std::string();
  return absl::InvalidArgumentError(fmt::format(
      "\"train.steps\" is {}{}; with {} it must be more than {}, {} of which are made before {}",
      settings.train.steps,
      done,
      paced ? "\"device.emulated.load\"" : "\"train.recompute\" = \"planned\"",
      steps_done + before,
      before,
      paced ? "the pace is set" : "that is decided"));
}

/// Whether enough steps are left to set the pace, or to decide the recomputation. A requeued job
/// may have too few left, and ends all the same.
absl::Status CheckStepsLeft(const TrainFlags& flags,
                            const ResumableSaves& resumable,
                            Console& console) {
  absl::Status judged = CheckJudgedSteps(flags, resumable.step());
  if (judged.ok() || flags.state_path.empty()) return judged;
  if (resumable.step() < flags.settings.train.steps) {
    console.Log(LogLevel::kWarning,
                fmt::format("{}; so few are left that the run ends without",
                            base::ToStd(judged.message())));
  }
  return absl::OkStatus();
}

/// Whether the model is that of the state or weights that the run begins with. The text may still
/// be unknown.
absl::Status CheckModel(const TrainFlags& flags) {
  SLUICE_ASSIGN_OR_RETURN(const ResumableSaves resumable, FindResumableSaves(flags, {}));
  // A state that is there has later weights.
  return resumable.candidates.empty() ? CheckInitialWeights(flags) : absl::OkStatus();
}

/// Checks that need no text. The check of the model comes before that of its size, which says less
/// of a wrong model. Opens the directory of --state if it is there.
absl::Status CheckRun(const TrainFlags& flags, Console& console, RunSaves* state) {
  SLUICE_RETURN_IF_ERROR(CheckSavePlace(flags));
  SLUICE_RETURN_IF_ERROR(CheckJudgedSteps(flags, 0));
  std::error_code error;
  const bool has_state = std::filesystem::is_directory(flags.state_path, error);
  if (has_state) {
    SLUICE_ASSIGN_OR_RETURN(state->directory, OpenStateDirectory(flags, console));
  }
  if (has_state || flags.state_path.empty()) SLUICE_RETURN_IF_ERROR(CheckModel(flags));
  SLUICE_RETURN_IF_ERROR(CheckBudgets(flags.settings));
  return CheckMemory(flags);
}

absl::StatusOr<int> TrainWith(const TrainFlags& flags, InterruptWatch& watch) {
  Console console(flags.json ? Console::Mode::kJson : Console::Mode::kText);
  RunSaves state;
  SLUICE_RETURN_IF_ERROR(CheckRun(flags, console, &state));
  SLUICE_ASSIGN_OR_RETURN(Corpus corpus, LoadText(flags, console));
  state.note = DescribeRun(flags.settings, corpus.hash);
  if (state.directory == nullptr) {
    SLUICE_ASSIGN_OR_RETURN(state.directory, OpenStateDirectory(flags, console));
  }
  SLUICE_ASSIGN_OR_RETURN(state.resumable, FindResumableSaves(flags, corpus.hash));
  SLUICE_RETURN_IF_ERROR(CheckStepsLeft(flags, state.resumable, console));
  // A state that is there has later weights.
  if (state.resumable.candidates.empty()) SLUICE_RETURN_IF_ERROR(CheckInitialWeights(flags));
  watch.Arm();  // armed only now: a pipe that gives no text is left at once
  SLUICE_ASSIGN_OR_RETURN(
      const gpt::Dataset data,
      gpt::Dataset::FromText(std::move(corpus.text), flags.settings.train, flags.settings.model));
  SLUICE_ASSIGN_OR_RETURN(
      const std::unique_ptr<TrainSession> session,
      TrainSession::Create(flags, data, console, std::move(state), {.stop = [&watch] {
                             return watch.interrupted();
                           }}));
  if (session->steps_before() >= flags.settings.train.steps) {
    console.Print("all steps are done; raise train.steps to go on\n");
  }
  SignalAnswer signals(*session, console, watch);
  std::unique_ptr<Verifier> verifier;
  if (flags.verify) {
    console.ShowProgress("starting the run in RAM");
    SLUICE_ASSIGN_OR_RETURN(verifier,
                            Verifier::Start(flags.config, data.text(), flags.init_path, [&] {
                              return signals.Attend();
                            }));
  }
  TrainRun run(
      {.session = *session, .verifier = verifier.get(), .console = console, .signals = signals});
  const absl::Status ran = run.Run();
  if (!session->trainer().failure().ok()) {
    const LastLoss loss = run.loss_is_finite() ? LastLoss::kFinite : LastLoss::kNotFinite;
    return EndAfterFailure(ran, *session, loss);
  }
  if (!ran.ok()) session->EndBegunSaves();
  SLUICE_RETURN_IF_ERROR(ran);
  const int exit_code = Conclude(run, *session, flags, console, watch);
  signals.Attend();
  return exit_code;
}

/// Calls TrainWith. A run that a signal ends before its first step has nothing to write.
absl::StatusOr<int> TrainUntilSignal(const TrainFlags& flags, InterruptWatch& watch) {
  absl::StatusOr<int> exit_code = TrainWith(flags, watch);
  if (!absl::IsCancelled(exit_code.status()) || !watch.interrupted()) return exit_code;
  Console(flags.json ? Console::Mode::kJson : Console::Mode::kText)
      .Print("interrupted before the first step\n");
  return kExitSignal + watch.signal();
}

}  // namespace

int RunTrain(std::span<const std::string> words) {
  if (!words.empty() && words.front() == kRamChildWord) return RunTrainChild();
  const auto has = [words](std::string_view flag) {
    return std::find(words.begin(), words.end(), flag) != words.end();
  };
  if (AsksForHelp(words)) {
    PrintHelp();
    return kExitDone;
  }
  if (has("--print-config")) return PrintConfig(words);
  InterruptWatch watch({.signals = InterruptWatch::Options::Signals::kOfBatchSystems,
                        .armed = InterruptWatch::Options::Armed::kLater});
  const absl::StatusOr<TrainFlags> flags = ReadTrainFlags(words);
  if (!flags.ok()) return Fail(flags.status());
  const absl::StatusOr<int> exit_code = TrainUntilSignal(*flags, watch);
  return exit_code.ok() ? *exit_code : Fail(exit_code.status());
}

}  // namespace sluice::tools
