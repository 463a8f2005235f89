#include "tests/runtime/optim/tensor_run.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>

#include "tests/runtime/optim/kernels/reference_update.h"

namespace sluice::optim {
namespace {

constexpr OptimizerKind kKinds[] = {OptimizerKind::kAdam,
                                    OptimizerKind::kAdamW,
                                    OptimizerKind::kSgd,
                                    OptimizerKind::kNesterov,
                                    OptimizerKind::kLion,
                                    OptimizerKind::kAdagrad};
constexpr StateType kStates[] = {StateType::kFp32, StateType::kBf16, StateType::k8Bit};
constexpr GradientType kGradients[] = {
    GradientType::kFp32, GradientType::kBf16, GradientType::kFp16};

/// Numbers are 4 bytes or 2; which kind of 2 is the caller's to know.
float Load(const std::vector<std::uint8_t>& bytes, std::size_t i) {
  float value = 0;
  std::memcpy(&value, bytes.data() + 4 * i, 4);
  return value;
}

std::uint16_t LoadHalf(const std::vector<std::uint8_t>& bytes, std::size_t i) {
  std::uint16_t value = 0;
  std::memcpy(&value, bytes.data() + 2 * i, 2);
  return value;
}

template <typename T>
void Store(T value, std::vector<std::uint8_t>& bytes, std::size_t i) {
  std::memcpy(bytes.data() + sizeof(T) * i, &value, sizeof(T));
}

std::string Hex(const std::vector<std::uint8_t>& bytes, std::size_t each, std::size_t i) {
  std::string text;
  for (std::size_t k = each; k-- > 0;) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", bytes[each * i + k]);
    text += digits;
  }
  return text;
}

std::size_t StateBytes(StateType type) {
  return type == StateType::kFp32 ? 4 : type == StateType::kBf16 ? 2 : 1;
}

void AppendParameterTypes(KernelSpec spec, std::vector<KernelSpec>* specs) {
  for (const CopyType copy : {CopyType::kNone, CopyType::kBf16, CopyType::kFp16}) {
    spec.copy = copy;
    specs->push_back(spec);
  }
  spec.parameter = ParameterType::kBf16;
  spec.copy = CopyType::kNone;
  specs->push_back(spec);
}

}  // namespace

std::vector<KernelSpec> AllSpecs() {
  std::vector<KernelSpec> specs;
  for (const OptimizerKind kind : kKinds) {
    for (const StateType state : kStates) {
      for (const GradientType gradient : kGradients) {
        AppendParameterTypes({.optimizer = kind, .state = state, .gradient = gradient}, &specs);
      }
    }
  }
  return specs;
}

std::string NameOf(const KernelSpec& spec) {
  std::string name(ToString(spec.optimizer));
  for (const std::string_view part : {ToString(spec.parameter),
                                      ToString(spec.state),
                                      ToString(spec.gradient),
                                      ToString(spec.copy)}) {
    name += "/" + std::string(part);
  }
  return name;
}

KernelScalars UsualScalars(OptimizerKind kind) {
  KernelScalars scalars{.learning_rate = 1e-3,
                        .beta1 = 0.9f,
                        .beta2 = 0.99f,
                        .eps = 1e-8,
                        .weight_decay = 0.1f,
                        .grad_scale = 0.7f};
  if (StateCount(kind) == 2) {
    scalars.moment1_scale = 1 / (1 - std::pow(0.9, 3));
    scalars.moment2_scale = 1 / (1 - std::pow(0.99, 3));
  }
  return scalars;
}

TensorRun::TensorRun(const KernelSpec& spec, std::size_t count)
    : parameters(count * (spec.parameter == ParameterType::kFp32 ? 4 : 2)),
      gradients(count * (spec.gradient == GradientType::kFp32 ? 4 : 2)),
      copy(spec.copy == CopyType::kNone ? 0 : 2 * count),
      spec_(spec),
      count_(count) {
  for (int k = 0; k < StateCount(spec.optimizer); ++k) {
    states[k].resize(count * StateBytes(spec.state));
    if (spec.state == StateType::k8Bit) scales[k].resize((count + kStateBlock - 1) / kStateBlock);
  }
}

TensorRun TensorRun::Random(const KernelSpec& spec, std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  TensorRun run(spec, count);
  for (std::size_t i = 0; i < count; ++i) {
    run.SetParameter(i, normal(random));
    run.SetGradient(i, 0.1f * normal(random));
    for (int k = 0; k < StateCount(spec.optimizer); ++k) {
      const float value = 0.1f * normal(random);
      const bool is_signed = IsSigned(spec.optimizer, k);
      const auto code = static_cast<std::uint8_t>(random());
      if (spec.state == StateType::k8Bit)
        run.states[k][i] = code;
      else
        run.SetState(k, i, is_signed ? value : value * value);
    }
  }
  for (int k = 0; k < 2; ++k) {
    for (float& scale : run.scales[k]) scale = 0.1f + 0.01f * std::abs(normal(random));
  }
  return run;
}

KernelArgs TensorRun::Args(const KernelScalars& scalars,
                           const RoundingKey& key,
                           std::size_t begin,
                           std::size_t size) {
  const auto each = [&](const std::vector<std::uint8_t>& bytes) { return bytes.size() / count_; };
  KernelArgs args{.scalars = scalars, .key = key, .element = begin, .count = size};
  args.parameters = parameters.data() + begin * each(parameters);
  args.gradients = gradients.data() + begin * each(gradients);
  args.copy = copy.data() + begin * each(copy);
  for (int k = 0; k < 2; ++k) {
    args.states[k].values = states[k].data() + begin * each(states[k]);
    if (!scales[k].empty()) args.states[k].scales = scales[k].data() + begin / kStateBlock;
  }
  return args;
}

float TensorRun::parameter(std::size_t i) const {
  return spec_.parameter == ParameterType::kFp32 ? Load(parameters, i)
                                                 : FromBf16(LoadHalf(parameters, i));
}

float TensorRun::gradient(std::size_t i) const {
  if (spec_.gradient == GradientType::kFp32) return Load(gradients, i);
  const std::uint16_t bits = LoadHalf(gradients, i);
  return spec_.gradient == GradientType::kBf16 ? FromBf16(bits) : FromFp16(bits);
}

float TensorRun::state(int k, std::size_t i) const {
  if (spec_.state == StateType::kFp32) return Load(states[k], i);
  if (spec_.state == StateType::kBf16) return FromBf16(LoadHalf(states[k], i));
  const bool is_signed = IsSigned(spec_.optimizer, k);
  const std::uint8_t code = states[k][i];
  const double value = ValueOfCode(is_signed ? code & 0x7f : code, is_signed);
  const auto rounded = static_cast<float>(is_signed && code >= 0x80 ? -value : value);
  return rounded * scales[k][i / kStateBlock];
}

void TensorRun::SetParameter(std::size_t i, float value) {
  if (spec_.parameter == ParameterType::kFp32) return Store(value, parameters, i);
  Store(NearestBf16(value), parameters, i);
}

void TensorRun::SetGradient(std::size_t i, float value) {
  if (spec_.gradient == GradientType::kFp32) return Store(value, gradients, i);
  const bool bf16 = spec_.gradient == GradientType::kBf16;
  Store(bf16 ? NearestBf16(value) : NearestFp16(value), gradients, i);
}

void TensorRun::SetState(int k, std::size_t i, float value) {
  if (spec_.state == StateType::kFp32) return Store(value, states[k], i);
  Store(NearestBf16(value), states[k], i);
}

std::string TensorRun::HexOf(std::size_t i) const {
  std::string text = Hex(parameters, parameters.size() / count_, i);
  for (int k = 0; k < StateCount(spec_.optimizer); ++k) {
    text += " " + Hex(states[k], states[k].size() / count_, i);
  }
  if (!copy.empty()) text += " " + Hex(copy, 2, i);
  return text;
}

std::string TensorRun::Difference(const TensorRun& other) const {
  for (std::size_t i = 0; i < count_; ++i) {
    if (HexOf(i) == other.HexOf(i)) continue;
    return "element " + std::to_string(i) + ": " + HexOf(i) + " and " + other.HexOf(i);
  }
  for (int k = 0; k < 2; ++k) {
    const std::size_t bytes = 4 * scales[k].size();
    if (bytes > 0 && std::memcmp(scales[k].data(), other.scales[k].data(), bytes) != 0) {
      return "a scale of state " + std::to_string(k);
    }
  }
  return {};
}

}  // namespace sluice::optim
