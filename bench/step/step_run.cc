#include "bench/step/step_run.h"

#include <algorithm>

#include "base/status.h"
#include "bench/step/step_needs.h"
#include "bench/store/statistics.h"

namespace sluice::bench {
namespace {

/// Multiple of its kernel's time that a step may take, if the kernel binds.
constexpr double kOfKernel = 1.10;

double MedianOf(const std::vector<StepSample>& samples, double StepSample::*field) {
  std::vector<double> values;
  for (const StepSample& sample : samples) values.push_back(sample.*field);
  return Median(values);
}

double MedianCeiling(const std::vector<Round>& rounds) {
  std::vector<double> values;
  for (const Round& round : rounds) values.push_back(round.Ceiling());
  return Median(values);
}

}  // namespace

double FloorSeconds(const StepCase& which,
                    std::uint64_t parameters,
                    double disk_rate,
                    double memory_rate) {
  const double disk = DiskBytes(which, parameters) / disk_rate;
  if (which.floor != StepFloor::kDiskOrMemory) return disk;
  return std::max(disk, MemoryBytes(which, parameters) / memory_rate);
}

absl::StatusOr<std::unique_ptr<StepRun>> StepRun::Create(const StepSetting& setting,
                                                         const StepCase& which) {
  auto run = std::unique_ptr<StepRun>(new StepRun(setting, which));
  SLUICE_RETURN_IF_ERROR(run->MakeModels());
  return run;
}

absl::Status StepRun::MakeModels() {
  if (which_.floor != StepFloor::kDisk) {
    SLUICE_ASSIGN_OR_RETURN(memory_, MemoryRates::Create(which_.spec, parameters_));
  }
  if (which_.floor == StepFloor::kOwnFp32) {
    SLUICE_ASSIGN_OR_RETURN(own_fp32_,
                            StepModel::Create(ModelOptions(setting_.options, OwnFp32(which_))));
    SLUICE_RETURN_IF_ERROR(own_fp32_->Measure().status());
  }
  peak_.emplace();
  SLUICE_ASSIGN_OR_RETURN(model_, StepModel::Create(ModelOptions(setting_.options, which_)));
  return model_->Measure().status();
}

double StepRun::Rate(double seconds) const {
  return static_cast<double>(parameters_) / seconds / 1e9;
}

absl::StatusOr<double> StepRun::RunOwnFp32() {
  SLUICE_ASSIGN_OR_RETURN(const StepSample sample, own_fp32_->Measure());
  return Rate(sample.seconds);
}

absl::StatusOr<double> StepRun::RunFloor() {
  SLUICE_RETURN_IF_ERROR(setting_.session.CheckInterrupted());
  if (which_.floor == StepFloor::kOwnFp32) return RunOwnFp32();
  SLUICE_ASSIGN_OR_RETURN(const Sample disk, setting_.session.RunCeiling(setting_.disk));
  const double memory_rate = memory_ == nullptr ? 0 : memory_->LoopBytesPerSecond();
  const double disk_rate = static_cast<double>(disk.bytes) / disk.seconds;
  return Rate(FloorSeconds(which_, parameters_, disk_rate, memory_rate));
}

absl::Status StepRun::RunOurs(double* rate) {
  SLUICE_ASSIGN_OR_RETURN(const StepSample sample, model_->Measure());
  samples_.push_back(sample);
  *rate = Rate(sample.seconds);
  return absl::OkStatus();
}

absl::Status StepRun::RunRound() {
  Round round;
  if (floor_before_.has_value()) {
    round.first = *floor_before_;
  } else {
    SLUICE_ASSIGN_OR_RETURN(round.first, RunFloor());
  }
  SLUICE_RETURN_IF_ERROR(RunOurs(&round.ours));
  SLUICE_ASSIGN_OR_RETURN(round.second, RunFloor());
  rounds_.push_back(round);
  if (which_.floor != StepFloor::kOwnFp32) return absl::OkStatus();
  floor_before_ = round.second;
  const double first = memory_->KernelParametersPerSecond() / 1e9;
  const double second = memory_->KernelParametersPerSecond() / 1e9;
  kernel_rounds_.push_back({.first = first, .ours = round.ours, .second = second});
  return absl::OkStatus();
}

bool StepRun::KernelBinds() const {
  if (kernel_rounds_.empty()) return false;
  return MedianCeiling(kernel_rounds_) < MedianCeiling(rounds_) / which_.limit;
}

StepFigures StepRun::Figures(const Row& row) const {
  const auto median = [this](double StepSample::*field) { return MedianOf(samples_, field); };
  const double billions = static_cast<double>(parameters_) / 1e9;
  return {.parameters = parameters_,
          .budget_bytes = BudgetBytes(which_, parameters_),
          .seconds = median(&StepSample::seconds),
          .floor_seconds = billions / row.ceiling.value_or(1),
          .wait_seconds = median(&StepSample::wait_seconds),
          .wait_read_seconds = median(&StepSample::wait_read_seconds),
          .wait_write_seconds = median(&StepSample::wait_write_seconds),
          .compute_seconds = median(&StepSample::compute_seconds),
          .read_bytes = median(&StepSample::read_bytes),
          .written_bytes = median(&StepSample::written_bytes),
          .read_busy_seconds = median(&StepSample::read_busy_seconds),
          .write_busy_seconds = median(&StepSample::write_busy_seconds),
          .peak_rss_bytes = peak_->Bytes(),
          .peak_rss_limit_bytes = MemoryLimit(which_, parameters_)};
}

Row StepRun::MakeRow() const {
  const bool kernel = KernelBinds();
  Row row = MakeJudgedRow(CaseName(which_, parameters_), kernel ? kernel_rounds_ : rounds_);
  row.unit = "Gparameters/s";
  row.ceiling_of = setting_.session.ceiling_name();
  if (which_.floor == StepFloor::kDiskOrMemory) row.ceiling_of += " or byte-loop";
  if (which_.floor == StepFloor::kOwnFp32) row.ceiling_of = kernel ? "kernel" : "own fp32 step";
  if (which_.floor != StepFloor::kOwnFp32) row.depth = setting_.disk.depth;
  if (which_.limit > 0) row.bar = 1 / (kernel ? kOfKernel : which_.limit);
  row.huge_pages = model_->huge();
  row.step = Figures(row);
  row.ns_per_parameter = row.step->seconds / static_cast<double>(parameters_) * 1e9;
  return row;
}

}  // namespace sluice::bench
