#include "bench/step/step_model.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/status.h"
#include "base/strings.h"
#include "bench/step/numbers.h"
#include "bench/step/step_reference.h"
#include "fmt/format.h"

namespace sluice::bench {
namespace {

constexpr char kLink[] = "dram-nvme";
/// Slots beyond the pages of the tensors: new generations while the old ones count.
constexpr std::uint64_t kSlotsMore = 64;
/// Elements of each sample that is compared.
constexpr std::uint64_t kSampleElements = 4 * optim::kStateBlock;
/// Samples of each tensor, from its first element to its last.
constexpr std::uint64_t kSamples = 4;

constexpr GroupRates kRates{.learning_rate = 1e-4, .weight_decay = 0.01};

std::size_t ParameterBytes(const StepCase& which) {
  return static_cast<std::size_t>(BytesPerElement(which.spec).parameter);
}

std::size_t GradientBytes(const StepCase& which) {
  return static_cast<std::size_t>(BytesPerElement(which.spec).gradient);
}

std::size_t TensorsOf(const StepModelOptions& options) {
  return (options.parameters + options.tensor_parameters - 1) / options.tensor_parameters;
}

Access InDram(TensorId tensor, ByteRange range, AccessMode mode) {
  return {.tensor = tensor, .range = range, .mode = mode, .tier = kDram0, .contiguous = false};
}

/// Counters of the link, to be subtracted.
StepSample ReadLink(const Runtime& runtime) {
  const Stats stats = runtime.GetStats();
  const auto link = stats.links.find(kLink);
  if (link == stats.links.end()) return {};
  return {.read_bytes = static_cast<double>(link->second.in.bytes),
          .written_bytes = static_cast<double>(link->second.out.bytes),
          .read_busy_seconds = link->second.in.busy_seconds,
          .write_busy_seconds = link->second.out.busy_seconds};
}

/// The mean of `steps` steps between two readings of the link.
StepSample MeanOf(StepSample sum, const StepSample& before, const StepSample& after, int steps) {
  const auto each = [steps](double value) { return value / steps; };
  return {.seconds = each(sum.seconds),
          .wait_seconds = each(sum.wait_seconds),
          .wait_read_seconds = each(sum.wait_read_seconds),
          .wait_write_seconds = each(sum.wait_write_seconds),
          .compute_seconds = each(sum.compute_seconds),
          .read_bytes = each(after.read_bytes - before.read_bytes),
          .written_bytes = each(after.written_bytes - before.written_bytes),
          .read_busy_seconds = each(after.read_busy_seconds - before.read_busy_seconds),
          .write_busy_seconds = each(after.write_busy_seconds - before.write_busy_seconds)};
}

}  // namespace

StepModel::StepModel(const StepModelOptions& options) : options_(options) {}

std::uint64_t StepModel::DiskBytesOf(const StepModelOptions& options) {
  const auto kept = static_cast<std::uint64_t>(KeptBytes(options.which, options.parameters));
  // Each tensor, states and scales included, may fill its last page in part.
  const std::uint64_t rest = 5 * TensorsOf(options) + kSlotsMore;
  return (kept / options.page_bytes + rest) * options.page_bytes;
}

std::uint64_t StepModel::GradientBytesOf(const StepCase& which, std::uint64_t parameters) {
  return parameters * GradientBytes(which);
}

absl::StatusOr<std::unique_ptr<StepModel>> StepModel::Create(const StepModelOptions& options) {
  auto model = std::unique_ptr<StepModel>(new StepModel(options));
  const std::size_t size = GradientBytes(options.which);
  SLUICE_ASSIGN_OR_RETURN(model->gradients_, PageBuffers::Create(1, options.parameters * size));
  FillNumbers(Numbers::kGradients, size, 0, model->gradients());
  SLUICE_RETURN_IF_ERROR(model->MakeRuntime());
  SLUICE_RETURN_IF_ERROR(model->MakeParameters());
  SLUICE_RETURN_IF_ERROR(model->MakeOptimizer());
  return model;
}

absl::Status StepModel::MakeRuntime() {
  RuntimeOptions runtime;
  runtime.page_bytes = Bytes(options_.page_bytes);
  runtime.dram_bytes = Bytes(BudgetBytes(options_.which, options_.parameters));
  runtime.nvme_bytes = Bytes(DiskBytesOf(options_));
  runtime.io.directory = options_.directory;
  runtime.policy = options_.policy;
  runtime.log = [warn = options_.warn](LogLevel level, std::string_view line) {
    if (warn && level != LogLevel::kInfo) warn(line);
  };
  SLUICE_ASSIGN_OR_RETURN(runtime_, Runtime::Create(std::move(runtime)));
  return absl::OkStatus();
}

std::uint64_t StepModel::CountOf(std::size_t tensor) const {
  return std::min(options_.tensor_parameters,
                  options_.parameters - tensor * options_.tensor_parameters);
}

absl::Status StepModel::MakeParameters() {
  const bool fp32 = options_.which.spec.parameter == optim::ParameterType::kFp32;
  for (std::size_t i = 0; i < TensorsOf(options_); ++i) {
    SLUICE_ASSIGN_OR_RETURN(
        const TensorId tensor,
        runtime_->CreateTensor({.name = fmt::format("p{}", i),
                                .shape = {static_cast<std::int64_t>(CountOf(i))},
                                .dtype = fp32 ? DType::kF32 : DType::kBF16,
                                .kind = TensorKind::kParameter,
                                .lowest = TierKind::kNvme}));
    tensors_.push_back(tensor);
    SLUICE_RETURN_IF_ERROR(WriteParameter(i));
  }
  return absl::OkStatus();
}

absl::Status StepModel::WriteParameter(std::size_t index) {
  const std::size_t size = ParameterBytes(options_.which);
  const std::uint64_t bytes = CountOf(index) * size;
  for (std::uint64_t at = 0; at < bytes; at += options_.page_bytes) {
    const ByteRange range{at, std::min(options_.page_bytes, bytes - at)};
    const Access access = InDram(tensors_[index], range, AccessMode::kOverwrite);
    Op op = runtime_->BeginOp({.name = "fill", .lane = "fill"});
    SLUICE_ASSIGN_OR_RETURN(const Lease lease, op.Acquire(access));
    std::uint64_t number = index * options_.tensor_parameters + at / size;
    for (const std::span<std::byte> piece : lease.Spans()) {
      FillNumbers(Numbers::kParameters, size, number, piece);
      number += piece.size() / size;
    }
  }
  return absl::OkStatus();
}

absl::Status StepModel::MakeOptimizer() {
  SLUICE_ASSIGN_OR_RETURN(optimizer_,
                          OffloadedOptimizer::Create(*runtime_,
                                                     {.kind = options_.which.spec.optimizer,
                                                      .state = options_.which.spec.state,
                                                      .order = SweepOrder::kAlternate,
                                                      .threads = options_.threads}));
  SLUICE_ASSIGN_OR_RETURN(
      group_, optimizer_->AddGroup({.name = "all", .parameters = tensors_, .rates = kRates}));
  const bool fp32 = options_.which.spec.gradient == optim::GradientType::kFp32;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const GradientBinding binding{.type = fp32 ? DType::kF32 : DType::kBF16,
                                  .bytes = GradientsOf(i, {0, CountOf(i)})};
    SLUICE_RETURN_IF_ERROR(optimizer_->BindGradient(tensors_[i], binding));
  }
  return absl::OkStatus();
}

std::span<const std::byte> StepModel::GradientsOf(std::size_t tensor, ElementRange elements) const {
  const std::size_t size = GradientBytes(options_.which);
  const std::uint64_t first = tensor * options_.tensor_parameters + elements.begin;
  return std::span<const std::byte>(gradients()).subspan(first * size, elements.count * size);
}

absl::StatusOr<StepSample> StepModel::Measure() {
  SLUICE_RETURN_IF_ERROR(RunBothWays().status());
  SLUICE_ASSIGN_OR_RETURN(const StepSample sample, RunBothWays());
  // Work after this line belongs to no iteration that the runtime measures.
  SLUICE_RETURN_IF_ERROR(runtime_->EndIteration());
  return sample;
}

absl::Status StepModel::RunStep(StepSample* sample) {
  if (options_.interrupted && options_.interrupted()) return absl::CancelledError("interrupted");
  SLUICE_RETURN_IF_ERROR(optimizer_->GradientReady(group_));
  SLUICE_ASSIGN_OR_RETURN(StepHandle handle, optimizer_->Step());
  SLUICE_ASSIGN_OR_RETURN(const OptimizerStep step, handle.Wait());
  sample->wait_seconds += step.wait_seconds;
  sample->wait_read_seconds += step.wait_read_seconds;
  sample->wait_write_seconds += step.wait_write_seconds;
  sample->compute_seconds += step.compute_seconds;
  return absl::OkStatus();
}

absl::StatusOr<StepSample> StepModel::RunBothWays() {
  constexpr int kSteps = 2;
  const StepSample before = ReadLink(*runtime_);
  const auto start = std::chrono::steady_clock::now();
  StepSample sum;
  SLUICE_RETURN_IF_ERROR(runtime_->BeginIteration("both ways"));
  for (int i = 0; i < kSteps; ++i) SLUICE_RETURN_IF_ERROR(RunStep(&sum));
  sum.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return MeanOf(sum, before, ReadLink(*runtime_), kSteps);
}

absl::StatusOr<std::vector<std::byte>> StepModel::ReadElements(std::size_t tensor,
                                                               ElementRange elements) {
  const std::size_t size = ParameterBytes(options_.which);
  std::vector<std::byte> bytes(elements.count * size);
  SLUICE_RETURN_IF_ERROR(runtime_->Read(tensors_[tensor], bytes, elements.begin * size));
  return bytes;
}

absl::StatusOr<std::string> StepModel::DifferenceIn(std::size_t tensor, ElementRange elements) {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<std::byte> got, ReadElements(tensor, elements));
  SLUICE_ASSIGN_OR_RETURN(const std::vector<std::byte> expected,
                          UpdateInMemory({.spec = options_.which.spec,
                                          .rates = kRates,
                                          .tensor = tensor,
                                          .first_number = tensor * options_.tensor_parameters,
                                          .elements = elements,
                                          .gradients = GradientsOf(tensor, elements),
                                          .steps = optimizer_->step()}));
  const auto differs = std::mismatch(expected.begin(), expected.end(), got.begin(), got.end());
  if (differs.first == expected.end() && differs.second == got.end()) return std::string();
  const auto byte = static_cast<std::uint64_t>(differs.first - expected.begin());
  return fmt::format("{}: after {} steps element {} of p{} is not what the kernel makes of it",
                     CaseName(options_.which, options_.parameters),
                     optimizer_->step(),
                     elements.begin + byte / ParameterBytes(options_.which),
                     tensor);
}

absl::StatusOr<std::string> StepModel::Difference() {
  for (std::size_t tensor = 0; tensor < tensors_.size(); ++tensor) {
    const std::uint64_t count = CountOf(tensor);
    const std::uint64_t length = std::min(count, kSampleElements);
    for (std::uint64_t i = 0; i < kSamples; ++i) {
      // Samples begin at 8-bit blocks. The last sample ends with the tensor.
      const std::uint64_t at = (count - length) * i / (kSamples - 1);
      const std::uint64_t begin = at / optim::kStateBlock * optim::kStateBlock;
      const std::uint64_t end = i + 1 == kSamples ? count : begin + length;
      SLUICE_ASSIGN_OR_RETURN(const std::string differs,
                              DifferenceIn(tensor, {begin, end - begin}));
      if (!differs.empty()) return differs;
    }
  }
  return std::string();
}

bool StepModel::huge() const {
  const Stats stats = runtime_->GetStats();
  const auto dram = stats.tiers.find("dram");
  return dram != stats.tiers.end() && dram->second.huge_page_share > 0.999 && gradients_->huge();
}

}  // namespace sluice::bench
