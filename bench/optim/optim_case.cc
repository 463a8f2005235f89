#include "bench/optim/optim_case.h"

#include "fmt/format.h"

namespace sluice::bench {
namespace {

using optim::GradientType;
using optim::KernelSpec;
using optim::OptimizerKind;
using optim::ParameterType;
using optim::SimdTarget;
using optim::StateType;

constexpr OptimizerKind kOptimizers[] = {OptimizerKind::kAdamW,
                                         OptimizerKind::kAdam,
                                         OptimizerKind::kSgd,
                                         OptimizerKind::kNesterov,
                                         OptimizerKind::kLion,
                                         OptimizerKind::kAdagrad};

constexpr KernelSpec kTypes[] = {
    {},
    {.state = StateType::kBf16},
    {.state = StateType::k8Bit},
    {.parameter = ParameterType::kBf16, .gradient = GradientType::kBf16},
    {.parameter = ParameterType::kBf16, .state = StateType::kBf16, .gradient = GradientType::kBf16},
    {.parameter = ParameterType::kBf16, .state = StateType::k8Bit, .gradient = GradientType::kBf16},
};

}  // namespace

Ceiling OptimCase::ceiling() const {
  return spec.state == StateType::k8Bit ? Ceiling::kFp32Kernel : Ceiling::kLoop;
}

double OptimCase::bar() const {
  if (ceiling() == Ceiling::kFp32Kernel) return 0.5;
  const bool fp32 = spec.state == StateType::kFp32 && spec.parameter == ParameterType::kFp32;
  return fp32 ? 0.95 : 0.90;
}

std::string CaseName(const OptimCase& which) {
  return fmt::format("{}/{}/{}/{}/{}",
                     ToString(which.spec.optimizer),
                     ToString(which.spec.parameter),
                     ToString(which.spec.state),
                     ToString(which.target),
                     which.all_threads ? "all" : "1");
}

std::vector<OptimCase> OptimCases() {
  std::vector<OptimCase> cases;
  for (const OptimizerKind optimizer : kOptimizers) {
    for (KernelSpec spec : kTypes) {
      spec.optimizer = optimizer;
      cases.push_back({.spec = spec});
    }
  }
  for (const KernelSpec& spec : kTypes) {
    cases.push_back({.spec = spec, .all_threads = false});
    for (const SimdTarget target : optim::SupportedSimdTargets()) {
      if (target != SimdTarget::kScalar) cases.push_back({.spec = spec, .target = target});
    }
  }
  return cases;
}

}  // namespace sluice::bench
