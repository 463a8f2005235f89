#include "tests/runtime/optim/paged_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <span>

#include "runtime/optim/kernels/gradient_scan.h"
#include "runtime/optim/kernels/parameter_copy.h"
#include "runtime/optim/parameters/parameter_entry.h"
#include "runtime/optim/step/gradient_sum.h"
#include "tests/support/status_matchers.h"

namespace sluice::optim {
namespace {

using sluice::testing::IsOk;

DType TypeOf(ParameterType type) {
  return type == ParameterType::kFp32 ? DType::kF32 : DType::kBF16;
}
DType TypeOf(GradientType type) {
  if (type == GradientType::kFp32) return DType::kF32;
  return type == GradientType::kBf16 ? DType::kBF16 : DType::kF16;
}
DType TypeOf(CopyType type) { return type == CopyType::kBf16 ? DType::kBF16 : DType::kF16; }

std::vector<std::byte> BytesOf(const void* data, std::size_t size) {
  const auto* bytes = static_cast<const std::byte*>(data);
  return {bytes, bytes + size};
}

template <typename T>
std::vector<std::byte> BytesOf(const std::vector<T>& values) {
  return BytesOf(values.data(), values.size() * sizeof(T));
}

}  // namespace

PagedModel::PagedModel(sluice::testing::RuntimeFixture& runtime, const Options& options)
    : runtime_(runtime), options_(options) {
  for (const auto& group : options.groups) {
    for (const std::size_t count : group) AddEntry(count);
  }
  Recreate();
  PublishGradients();
}

void PagedModel::AddEntry(std::size_t count) {
  const std::string name = "p" + std::to_string(entries_.size());
  Entry entry{.run = TensorRun(options_.spec, count),
              .steps_before = optimizer_ == nullptr ? 0 : optimizer_->step()};
  std::mt19937_64 random(options_.seed + entries_.size());
  std::normal_distribution<float> normal;
  for (std::size_t i = 0; i < count; ++i) {
    entry.run.SetParameter(i, normal(random));
    entry.run.SetGradient(i, 0.1f * normal(random));
  }
  const auto create = [&](const std::string& suffix, DType type) {
    return runtime_
        ->CreateTensor({.name = name + suffix,
                        .shape = {static_cast<std::int64_t>(count)},
                        .dtype = type,
                        .kind = TensorKind::kParameter})
        .value();
  };
  MakeParameter(entry, name);
  if (options_.gradients == Storage::kTensor) {
    entry.gradient = create(".gradient", TypeOf(options_.spec.gradient));
  }
  if (options_.spec.copy != CopyType::kNone && options_.copies == Storage::kTensor) {
    entry.copy = create(".copy", TypeOf(options_.spec.copy));
  }
  entry.gradient_bytes.resize(entry.run.gradients.size());
  entry.copy_bytes.resize(entry.run.copy.size());
  entries_.push_back(std::move(entry));
}

void PagedModel::MakeParameter(Entry& entry, const std::string& name) {
  if (options_.parameters == Storage::kTensor) {
    entry.tensor = runtime_
                       ->CreateTensor({.name = name,
                                       .shape = {static_cast<std::int64_t>(entry.run.count())},
                                       .dtype = TypeOf(options_.spec.parameter),
                                       .kind = TensorKind::kParameter})
                       .value();
    runtime_.Write(entry.tensor, BytesOf(entry.run.parameters));
  } else if (options_.parameters == Storage::kMemory) {
    entry.memory = BytesOf(entry.run.parameters);
  } else {
    // The master begins with the numbers of the memory.
    const ParameterCopy copy{.type = options_.spec.copy,
                             .parameters = entry.run.parameters.data(),
                             .copy = entry.run.copy.data(),
                             .count = entry.run.count()};
    CopyParameters(copy);
    entry.memory = BytesOf(entry.run.copy);
    AddGradients(
        {.sum = entry.run.parameters.data(),
         .type = options_.spec.copy == CopyType::kBf16 ? GradientType::kBf16 : GradientType::kFp16,
         .gradients = entry.run.copy.data(),
         .count = entry.run.count(),
         .first = true});
  }
}

void PagedModel::BindParameter(Entry& entry, const std::string& name) {
  const bool master = options_.parameters == Storage::kMaster;
  const auto id = optimizer_->BindParameter(
      {.name = name,
       .type = master ? TypeOf(options_.spec.copy) : TypeOf(options_.spec.parameter),
       .shape = {static_cast<std::int64_t>(entry.run.count())},
       .bytes = entry.memory,
       .master = master});
  ASSERT_THAT(id, IsOk());
  entry.tensor = *id;
}

void PagedModel::Recreate() {
  optimizer_.reset();
  OptimizerOptions options = options_.optimizer;
  options.kind = options_.spec.optimizer;
  options.state = options_.spec.state;
  auto optimizer = OffloadedOptimizer::Create(*runtime_, options);
  ASSERT_THAT(optimizer, IsOk());
  optimizer_ = *std::move(optimizer);
  groups_.clear();
  std::size_t next = 0;
  for (const auto& group : options_.groups) {
    AddGroup(next, group.size());
    next += group.size();
  }
}

void PagedModel::AddGroup(std::size_t first, std::size_t count) {
  std::vector<TensorId> parameters;
  for (std::size_t i = first; options_.parameters != Storage::kTensor && i < first + count; ++i) {
    BindParameter(entries_[i], "p" + std::to_string(i));
  }
  for (std::size_t i = 0; i < count; ++i) parameters.push_back(entries_[first + i].tensor);
  const auto id = optimizer_->AddGroup(
      {.name = "g" + std::to_string(groups_.size()), .parameters = parameters, .rates = rates_});
  ASSERT_THAT(id, IsOk());
  groups_.push_back(*id);
  for (std::size_t i = 0; i < count; ++i) Bind(entries_[first + i]);
}

void PagedModel::AddLateGroup(const std::vector<std::size_t>& counts) {
  const std::size_t first = entries_.size();
  for (const std::size_t count : counts) AddEntry(count);
  options_.groups.push_back(counts);
  AddGroup(first, counts.size());
  PublishGradients();
}

void PagedModel::Bind(Entry& entry) {
  GradientBinding gradient{.type = TypeOf(options_.spec.gradient),
                           .tensor = entry.gradient,
                           .discard = options_.discard};
  if (entry.gradient == TensorId()) gradient.bytes = entry.gradient_bytes;
  ASSERT_THAT(optimizer_->BindGradient(entry.tensor, gradient), IsOk());
  if (options_.spec.copy == CopyType::kNone || options_.parameters == Storage::kMaster) return;
  CopyBinding copy{.type = TypeOf(options_.spec.copy), .tensor = entry.copy};
  if (entry.copy == TensorId()) copy.bytes = entry.copy_bytes;
  ASSERT_THAT(optimizer_->BindCopy(entry.tensor, copy), IsOk());
}

void PagedModel::SetGradients(std::uint64_t seed, float size) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  for (Entry& entry : entries_) {
    for (std::size_t i = 0; i < entry.run.count(); ++i) {
      entry.run.SetGradient(i, size * normal(random));
    }
  }
  PublishGradients();
}

void PagedModel::PublishGradients() {
  for (Entry& entry : entries_) {
    if (entry.gradient != TensorId()) {
      runtime_.Write(entry.gradient, BytesOf(entry.run.gradients));
    } else {
      entry.gradient_bytes = BytesOf(entry.run.gradients);
      Bind(entry);
    }
  }
}

absl::StatusOr<OptimizerStep> PagedModel::Step(double loss_scale) {
  return Step(StepOptions{.loss_scale = loss_scale});
}

absl::StatusOr<OptimizerStep> PagedModel::Step(const StepOptions& options) {
  for (const GroupId group : groups_) {
    if (absl::Status status = optimizer_->GradientReady(group); !status.ok()) return status;
  }
  absl::StatusOr<StepHandle> step = optimizer_->Step(options);
  if (!step.ok()) return step.status();
  return step->Wait();
}

absl::StatusOr<OptimizerStep> PagedModel::StepOf(const std::set<std::size_t>& groups) {
  for (const std::size_t group : groups) {
    if (absl::Status status = optimizer_->GradientReady(groups_[group]); !status.ok())
      return status;
  }
  absl::StatusOr<StepHandle> step = optimizer_->Step({.only_ready = true});
  if (!step.ok()) return step.status();
  return step->Wait();
}

bool PagedModel::IsIn(const std::set<std::size_t>& groups, std::size_t entry) const {
  std::size_t first = 0;
  for (std::size_t group = 0; group < options_.groups.size(); ++group) {
    const std::size_t next = first + options_.groups[group].size();
    if (entry >= first && entry < next) return groups.contains(group);
    first = next;
  }
  return false;
}

void PagedModel::ReferenceStep(std::int64_t step,
                               double scale,
                               const std::set<std::size_t>& sits_out) {
  const auto beta1 = static_cast<float>(rates_.beta1), beta2 = static_cast<float>(rates_.beta2);
  const Kernel kernel = FindKernel(options_.spec, SimdTarget::kScalar).value();
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (IsIn(sits_out, i)) {
      ++entries_[i].steps_before;
      continue;
    }
    const std::int64_t own_step = step - entries_[i].steps_before;
    const auto t = static_cast<double>(own_step);
    const KernelScalars scalars{.learning_rate = rates_.learning_rate,
                                .beta1 = beta1,
                                .beta2 = beta2,
                                .eps = rates_.eps,
                                .weight_decay = static_cast<float>(rates_.weight_decay),
                                .grad_scale = static_cast<float>(scale),
                                .moment1_scale = 1.0 / (1.0 - std::pow(double{beta1}, t)),
                                .moment2_scale = 1.0 / (1.0 - std::pow(double{beta2}, t))};
    const RoundingKey key{
        .seed = options_.optimizer.seed, .tensor = i, .step = static_cast<std::uint64_t>(own_step)};
    kernel(entries_[i].run.Args(scalars, key, 0, entries_[i].run.count()));
  }
}

double PagedModel::GradientNorm(const std::set<std::size_t>& sits_out) const {
  double sum = 0;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    if (IsIn(sits_out, i)) continue;
    sum += SumOfSquares(options_.spec.gradient, entry.run.gradients.data(), entry.run.count());
  }
  return std::sqrt(sum);
}

void PagedModel::SpoilCopies() {
  for (Entry& entry : entries_) {
    std::fill(entry.copy_bytes.begin(), entry.copy_bytes.end(), std::byte{0x5a});
    if (entry.copy != TensorId()) runtime_.Write(entry.copy, entry.copy_bytes);
  }
}

std::vector<std::vector<std::byte>> PagedModel::Paged() {
  std::vector<std::vector<std::byte>> all;
  for (const Entry& entry : entries_) {
    const ParameterState state = optimizer_->State(entry.tensor).value();
    all.push_back(ParameterOf(entry, state));
    for (const TensorId tensor : state.states) all.push_back(runtime_.Read(tensor));
    for (const TensorId tensor : state.scales) all.push_back(runtime_.Read(tensor));
    all.push_back(CopyOf(entry));
  }
  return all;
}

std::vector<std::byte> PagedModel::ParameterOf(const Entry& entry, const ParameterState& state) {
  if (options_.parameters == Storage::kMemory) return entry.memory;
  return runtime_.Read(options_.parameters == Storage::kMaster ? state.master : entry.tensor);
}

std::vector<std::byte> PagedModel::CopyOf(const Entry& entry) {
  if (options_.parameters == Storage::kMaster) return entry.memory;
  return entry.copy != TensorId() ? runtime_.Read(entry.copy) : entry.copy_bytes;
}

std::vector<std::vector<std::byte>> PagedModel::Reference() const {
  std::vector<std::vector<std::byte>> all;
  const auto states = static_cast<std::size_t>(StateCount(options_.spec.optimizer));
  for (const Entry& entry : entries_) {
    all.push_back(BytesOf(entry.run.parameters));
    for (std::size_t s = 0; s < states; ++s) all.push_back(BytesOf(entry.run.states[s]));
    if (options_.spec.state == StateType::k8Bit) {
      for (std::size_t s = 0; s < states; ++s) all.push_back(BytesOf(entry.run.scales[s]));
    }
    all.push_back(BytesOf(entry.run.copy));
  }
  return all;
}

}  // namespace sluice::optim
