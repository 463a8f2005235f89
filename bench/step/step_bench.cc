#include "bench/step/step_bench.h"

#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "base/strings.h"
#include "bench/optim/parts.h"
#include "bench/step/step_case.h"
#include "bench/step/step_needs.h"
#include "bench/step/step_run.h"
#include "bench/store/load.h"
#include "bench/store/session.h"
#include "fmt/format.h"
#include "numa/huge_pages.h"
#include "runtime/core/core.h"
#include "sluice/units.h"

namespace sluice::bench {
namespace {

constexpr int kRoundsMin = 3;
/// The pages that the case with the smallest budget needs for updates that are asked for ahead.
constexpr std::uint64_t kBudgetPagesMin = 16;

template <typename... Args>
absl::Status Refuse(fmt::format_string<Args...> format, Args&&... args) {
  return absl::InvalidArgumentError(base::ToAbsl(fmt::format(format, std::forward<Args>(args)...)));
}

absl::Status CheckStepOptions(const StepBenchOptions& options) {
  if (options.directory.empty()) {
    return Refuse(
        "no directory: name one on the disk to measure, for example --dir /var/tmp/bench");
  }
  if (options.rounds < 1 || options.milliseconds < 1) {
    return Refuse("rounds and milliseconds are at least 1");
  }
  if (options.parameters == 0 || options.parameters % kPartUnit != 0 ||
      options.tensor_parameters == 0 || options.tensor_parameters % kPartUnit != 0) {
    return Refuse("{} parameters, in tensors of {}: both must be multiples of {}",
                  options.parameters,
                  options.tensor_parameters,
                  kPartUnit);
  }
  if (options.page_bytes > numa::kHugePageBytes) {
    return Refuse("pages of {}: the buffers of fio are made for 2 MiB at most",
                  ToString(Bytes(options.page_bytes)));
  }
  return base::Annotate(core::CreatePolicy(options.policy).status(), "the policy (--policy)");
}

absl::Status CheckBudget(const StepBenchOptions& options, const StepCase& which) {
  const std::uint64_t least = kBudgetPagesMin * options.page_bytes;
  const std::uint64_t budget = BudgetBytes(which, options.parameters);
  if (budget >= least) return absl::OkStatus();
  return Refuse(
      "{}: a budget of {} is too small, {} are needed: take more parameters "
      "(--mebiparameters), or other cases (--case)",
      CaseName(which, options.parameters),
      ToString(Bytes(budget)),
      ToString(Bytes(least)));
}

absl::StatusOr<std::vector<StepCase>> SelectStepCases(const StepBenchOptions& options) {
  std::vector<StepCase> cases;
  std::vector<std::string> names;
  for (const StepCase& which : StepCases()) {
    names.push_back(CaseName(which, options.parameters));
    if (!MatchesPattern(options.pattern, names.back())) continue;
    SLUICE_RETURN_IF_ERROR(CheckBudget(options, which));
    cases.push_back(which);
  }
  if (!cases.empty()) return cases;
  return Refuse("\"{}\" matches no case{}; cases have names like {}",
                options.pattern,
                base::DidYouMean(options.pattern, names),
                names.front());
}

/// Load of the disk that a step is compared with: as many bytes written as read, in order, as in a
/// sweep.
Case DiskCase(const StepBenchOptions& options) {
  return {.direction = Direction::kMix, .pattern = Pattern::kSeq, .page_bytes = options.page_bytes};
}

absl::StatusOr<std::unique_ptr<StoreSession>> MakeSession(const StepBenchOptions& options) {
  return StoreSession::Create({.directory = options.directory,
                               .file_bytes = options.fio_bytes,
                               .rounds = options.rounds,
                               .milliseconds = options.milliseconds,
                               .fio = options.fio,
                               .huge_pages_path = options.huge_pages_path,
                               .interrupted = options.interrupted,
                               .progress = options.progress,
                               .warn = options.warn});
}

using StepClock = std::chrono::steady_clock;

/// `end`: no round but the first three begins later.
absl::StatusOr<std::string> RunStepCase(const StepSetting& setting,
                                        const StepCase& which,
                                        StepClock::time_point end,
                                        const RowFn& add_row) {
  const StoreSession& session = setting.session;
  const int rounds = setting.options.rounds;
  const std::string name = CaseName(which, setting.options.parameters);
  session.ShowProgress(name + ": making the states");
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<StepRun> run, StepRun::Create(setting, which));
  for (int round = 0; round < rounds; ++round) {
    if (round >= kRoundsMin && StepClock::now() > end) break;
    session.ShowProgress(fmt::format("{}: round {} of {}", name, round + 1, rounds));
    SLUICE_RETURN_IF_ERROR(run->RunRound());
  }
  const Row row = run->MakeRow();  // peak memory is read before the check adds to it
  SLUICE_ASSIGN_OR_RETURN(std::string differs, run->Difference());
  if (differs.empty()) add_row(row);
  return differs;
}

using WarnFn = std::function<void(const std::string&)>;

/// Function that passes each line on once. Every model warns from threads of its own.
WarnFn OnceEach(WarnFn warn) {
  struct Seen {
    base::Mutex mutex;
    std::set<std::string> lines ABSL_GUARDED_BY(mutex);
  };
  return [warn = std::move(warn), seen = std::make_shared<Seen>()](const std::string& line) {
    const base::MutexLock lock(seen->mutex);
    if (warn && seen->lines.insert(line).second) warn(line);
  };
}

}  // namespace

absl::StatusOr<std::string> RunStepBench(const StepBenchOptions& given, const RowFn& add_row) {
  StepBenchOptions options = given;
  options.warn = OnceEach(given.warn);
  SLUICE_RETURN_IF_ERROR(CheckStepOptions(options));
  SLUICE_ASSIGN_OR_RETURN(const std::vector<StepCase> cases, SelectStepCases(options));
  SLUICE_RETURN_IF_ERROR(CheckNeeds(options, cases));
  const auto start = StepClock::now();
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<StoreSession> session, MakeSession(options));
  const StepSetting setting{
      .options = options, .session = *session, .disk = session->MakeLoad(DiskCase(options))};
  const auto last = start + std::chrono::duration_cast<StepClock::duration>(
                                std::chrono::duration<double, std::ratio<60>>(options.minutes_max));
  for (std::size_t i = 0; i < cases.size(); ++i) {
    // An even share of the time left.
    const auto left = last - StepClock::now();
    const auto end = StepClock::now() + left / (cases.size() - i);
    SLUICE_ASSIGN_OR_RETURN(std::string differs, RunStepCase(setting, cases[i], end, add_row));
    if (!differs.empty()) return differs;
  }
  return std::string();
}

}  // namespace sluice::bench
