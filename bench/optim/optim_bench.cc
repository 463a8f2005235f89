#include "bench/optim/optim_bench.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "bench/optim/byte_loop.h"
#include "bench/optim/optim_case.h"
#include "bench/optim/parts.h"
#include "bench/optim/update_data.h"
#include "bench/store/judged_case.h"
#include "bench/store/load.h"
#include "bench/store/statistics.h"
#include "bench/store/system/free_space.h"
#include "fmt/format.h"

namespace sluice::bench {
namespace {

/// One case with its memory.
class CaseRun {
 public:
  static absl::StatusOr<std::unique_ptr<CaseRun>> Create(const OptimCase& which,
                                                         std::size_t parameters) {
    SLUICE_ASSIGN_OR_RETURN(const optim::Kernel kernel, FindKernel(which.spec, which.target));
    SLUICE_ASSIGN_OR_RETURN(const optim::Kernel fp32,
                            optim::FindKernel({.optimizer = which.spec.optimizer}, which.target));
    auto run = std::unique_ptr<CaseRun>(new CaseRun(which, kernel, fp32));
    SLUICE_ASSIGN_OR_RETURN(run->data_, UpdateData::Create(which.spec, parameters));
    if (which.ceiling() == Ceiling::kFp32Kernel) {
      SLUICE_ASSIGN_OR_RETURN(run->fp32_data_, UpdateData::Create(fp32.spec(), parameters));
    }
    return run;
  }

  /// Rates in the unit of the row.
  Round RunRound() const {
    Round round;
    round.first = Rate(RunCeiling());
    round.ours = Rate(RunKernel(kernel_, *data_));
    round.second = Rate(RunCeiling());
    return round;
  }

  Row MakeRow(const std::vector<Round>& rounds) const {
    Row row = MakeJudgedRow(CaseName(which_), rounds);
    const bool loop = which_.ceiling() == Ceiling::kLoop;
    row.unit = loop ? "GiB/s" : "Gparameters/s";
    row.ceiling_of = loop ? "byte-loop" : "fp32-kernel";
    row.huge_pages = data_->huge();
    row.bar = which_.bar();
    row.simd = std::string(ToString(kernel_.target()));
    row.ns_per_parameter = Rate(row.value);
    return row;
  }

 private:
  CaseRun(const OptimCase& which, const optim::Kernel& kernel, const optim::Kernel& fp32)
      : which_(which),
        kernel_(kernel),
        fp32_(fp32),
        threads_(which.all_threads ? AllowedProcessors() : 1) {}

  double GiBPerSecond(double ns) const {
    return BytesPerElement(which_.spec).Moved() / ns * 1e9 / (1 << 30);
  }
  /// Conversion of nanoseconds per parameter to the row's unit, and back.
  double Rate(double ns) const {
    return which_.ceiling() == Ceiling::kLoop ? GiBPerSecond(ns) : 1 / ns;
  }

  double RunKernel(const optim::Kernel& kernel, const UpdateData& data) const {
    return MeasureParts(data.count(), threads_, [&](std::size_t begin, std::size_t end) {
      kernel(data.Args(begin, end - begin));
    });
  }

  double RunCeiling() const {
    if (which_.ceiling() == Ceiling::kFp32Kernel) return RunKernel(fp32_, *fp32_data_);
    return MeasureParts(data_->count(), threads_, [&](std::size_t begin, std::size_t end) {
      volatile unsigned sink = MoveBytes(data_->streams(), begin, end);
      static_cast<void>(sink);
    });
  }

  const OptimCase which_;
  const optim::Kernel kernel_;
  const optim::Kernel fp32_;
  const std::size_t threads_;
  std::unique_ptr<UpdateData> data_;
  std::unique_ptr<UpdateData> fp32_data_;
};

absl::Status CheckOptions(const OptimBenchOptions& options) {
  if (options.rounds < 1) return absl::InvalidArgumentError("rounds are at least 1");
  if (options.parameters == 0 || options.parameters % kPartUnit != 0) {
    return absl::InvalidArgumentError(base::ToAbsl(fmt::format(
        "{} parameters are no multiple of {}; 67108864 are usual", options.parameters, kPartUnit)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<OptimCase>> SelectCases(const std::string& pattern) {
  std::vector<OptimCase> cases;
  std::vector<std::string> names;
  for (const OptimCase& which : OptimCases()) {
    names.push_back(CaseName(which));
    if (MatchesPattern(pattern, names.back())) cases.push_back(which);
  }
  if (!cases.empty()) return cases;
  return absl::InvalidArgumentError(
      base::ToAbsl(fmt::format("\"{}\" matches no case{}; cases have names like {}",
                               pattern,
                               base::DidYouMean(pattern, names),
                               names.front())));
}

absl::Status CheckMemory(std::span<const OptimCase> cases, std::size_t parameters) {
  std::uint64_t most = 0;
  for (const OptimCase& which : cases) most = std::max(most, BytesOf(which, parameters));
  return CheckFreeMemory(most,
                         fmt::format("tensors of {} parameters", parameters),
                         "take fewer with --mebiparameters, or fewer cases with --case");
}

absl::Status RunCase(const OptimCase& which,
                     const OptimBenchOptions& options,
                     const RowFn& add_row) {
  SLUICE_ASSIGN_OR_RETURN(const std::unique_ptr<CaseRun> run,
                          CaseRun::Create(which, options.parameters));
  run->RunRound();  // the threads touch the memory once before a measurement
  std::vector<Round> rounds;
  for (int round = 0; round < options.rounds; ++round) {
    if (options.interrupted && options.interrupted()) return absl::CancelledError("interrupted");
    if (options.progress) {
      options.progress(
          fmt::format("{}: round {} of {}", CaseName(which), round + 1, options.rounds));
    }
    rounds.push_back(run->RunRound());
  }
  add_row(run->MakeRow(rounds));
  return absl::OkStatus();
}

}  // namespace

std::uint64_t BytesOf(const OptimCase& which, std::uint64_t parameters) {
  std::uint64_t bytes = UpdateData::BytesOf(which.spec, parameters);
  if (which.ceiling() == Ceiling::kFp32Kernel) {
    bytes += UpdateData::BytesOf({.optimizer = which.spec.optimizer}, parameters);
  }
  return bytes;
}

absl::Status RunOptimBench(const OptimBenchOptions& options, const RowFn& add_row) {
  SLUICE_RETURN_IF_ERROR(CheckOptions(options));
  SLUICE_ASSIGN_OR_RETURN(const std::vector<OptimCase> cases, SelectCases(options.pattern));
  SLUICE_RETURN_IF_ERROR(CheckMemory(cases, options.parameters));
  for (const OptimCase& which : cases) {
    SLUICE_RETURN_IF_ERROR(RunCase(which, options, add_row));
  }
  return absl::OkStatus();
}

}  // namespace sluice::bench
