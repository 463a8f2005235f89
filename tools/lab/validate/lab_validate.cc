#include <filesystem>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "tools/lab/lab.h"
#include "tools/lab/validate/validate_flags.h"
#include "tools/lab/validate/validate_report.h"
#include "tools/lab/validate/validate_run.h"
#include "tools/support/arguments.h"
#include "tools/support/console.h"
#include "tools/support/exit_code.h"
#include "tools/support/interrupt.h"
#include "tools/train/files/corpus.h"
#include "tools/train/settings/budget_check.h"

namespace sluice::tools {
namespace {

absl::StatusOr<gpt::Dataset> LoadData(const TrainFlags& flags) {
  const std::filesystem::path config = flags.config.source;
  SLUICE_ASSIGN_OR_RETURN(Corpus corpus,
                          LoadCorpus({.files = flags.settings.texts,
                                      .files_name = flags.texts_name,
                                      .start_directory = config.parent_path().string()}));
  return gpt::Dataset::FromText(std::move(corpus.text), flags.settings.train, flags.settings.model);
}

/// Every budget is looked at before the first one is trained with.
absl::Status CheckAllBudgets(const ValidateFlags& flags) {
  for (const int percent : flags.percents) {
    const absl::Status fits = CheckBudgets(WithBudgets(flags.train, percent).settings);
    if (!fits.ok()) return base::Annotate(fits, fmt::format("--budgets {}", percent));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> Validate(const ValidateFlags& flags) {
  Console console(flags.mode);
  SLUICE_RETURN_IF_ERROR(CheckAllBudgets(flags));
  SLUICE_ASSIGN_OR_RETURN(const gpt::Dataset data, LoadData(flags.train));
  const InterruptWatch watch;
  console.Print(ValidateHeadText());
  for (const int percent : flags.percents) {
    console.ShowProgress(fmt::format("trains with {} % of the budgets", percent));
    const TrainFlags train = WithBudgets(flags.train, percent);
    const absl::StatusOr<TrainedRun> trained = Train(train, data, watch);
    if (watch.interrupted()) return kExitSignal + watch.signal();
    if (!trained.ok()) return trained.status();
    console.ShowProgress("simulates");
    SLUICE_ASSIGN_OR_RETURN(ValidatedRun run, Compare(*trained, train.settings));
    run.percent = percent;
    console.Print(ToText(run));
    console.PrintJson(ToJsonLine(run));
  }
  SLUICE_RETURN_IF_ERROR(console.status());
  return kExitDone;
}

}  // namespace

int RunLabValidate(std::span<const std::string> words) {
  if (AsksForHelp(words)) {
    fmt::print("{}", ValidateHelpText());
    return kExitDone;
  }
  const absl::StatusOr<ValidateFlags> flags = ReadValidateFlags(words);
  if (!flags.ok()) return Fail(flags.status());
  const absl::StatusOr<int> exit_code = Validate(*flags);
  return exit_code.ok() ? *exit_code : Fail(exit_code.status());
}

}  // namespace sluice::tools
