#include "runtime/optim/kernels/kernel.h"

namespace sluice {

std::string_view ToString(OptimizerKind kind) {
  constexpr std::string_view kNames[] = {"adam", "adamw", "sgd", "nesterov", "lion", "adagrad"};
  return kNames[static_cast<int>(kind)];
}

std::string_view ToString(StateType type) {
  constexpr std::string_view kNames[] = {"fp32", "bf16", "8bit"};
  return kNames[static_cast<int>(type)];
}

}  // namespace sluice

namespace sluice::optim {

std::string_view ToString(ParameterType type) {
  return type == ParameterType::kFp32 ? "fp32" : "bf16";
}

std::string_view ToString(GradientType type) {
  constexpr std::string_view kNames[] = {"fp32", "bf16", "fp16"};
  return kNames[static_cast<int>(type)];
}

std::string_view ToString(CopyType type) {
  constexpr std::string_view kNames[] = {"none", "bf16", "fp16"};
  return kNames[static_cast<int>(type)];
}

std::string_view ToString(SimdTarget target) {
  constexpr std::string_view kNames[] = {"best", "scalar", "sse4", "avx2", "avx512"};
  return kNames[static_cast<int>(target)];
}

}  // namespace sluice::optim
