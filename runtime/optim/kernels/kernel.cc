#include "runtime/optim/kernels/kernel.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/check.h"
#include "base/strings.h"
#include "hwy/targets.h"
#include "runtime/optim/kernels/float_environment.h"
#include "runtime/optim/kernels/kernel_families.h"
#include "runtime/optim/parameters/parameter_entry.h"
#include "runtime/optim/step/gradient_sum.h"

namespace sluice::optim {
namespace {

constexpr std::uint64_t kKeyedElements = std::uint64_t{1} << 32;

struct TargetName {
  SimdTarget target;
  std::int64_t highway;
};
/// Widest first.
constexpr TargetName kTargets[] = {{SimdTarget::kAvx512, HWY_AVX3},
                                   {SimdTarget::kAvx2, HWY_AVX2},
                                   {SimdTarget::kSse4, HWY_SSE4},
                                   {SimdTarget::kScalar, HWY_SCALAR}};

UpdateFn FindUpdate(const KernelSpec& spec, std::int64_t highway) {
  switch (spec.optimizer) {
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
      return FindAdam(spec, highway);
    case OptimizerKind::kSgd:
    case OptimizerKind::kNesterov:
      return FindMomentum(spec, highway);
    case OptimizerKind::kLion:
    case OptimizerKind::kAdagrad:
      return FindSimple(spec, highway);
  }
  return nullptr;
}

/// Whether this processor has the target's instructions, and kernels for them were compiled.
bool IsSupported(const TargetName& target) {
  // The answer is kept: cpuid leaves a virtual machine, and takes longer there than the update of a
  // page.
  static const std::int64_t kSupported = hwy::SupportedTargets();
  const bool has = target.target == SimdTarget::kScalar || (kSupported & target.highway) != 0;
  return has && FindUpdate({}, target.highway) != nullptr;
}

absl::Status CheckSpec(const KernelSpec& spec) {
  if (spec.parameter == ParameterType::kBf16 && spec.copy != CopyType::kNone) {
    return absl::InvalidArgumentError(
        "a copy of bf16 parameters: they are their own; ask for none, or for fp32 parameters");
  }
  return absl::OkStatus();
}

template <typename T>
T* Advanced(T* pointer, std::size_t bytes) {
  using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
  return pointer == nullptr ? nullptr : static_cast<Byte*>(pointer) + bytes;
}

/// The rest of a run after its first `count` elements.
KernelArgs Rest(const KernelSpec& spec, KernelArgs args, std::size_t count) {
  args.element += count;
  args.count -= count;
  args.parameters = Advanced(args.parameters, count * BytesOf(spec.parameter));
  args.gradients = Advanced(args.gradients, count * BytesOf(spec.gradient));
  args.copy = Advanced(args.copy, count * BytesOf(spec.copy));
  for (StateRun& run : args.states) {
    run.values = Advanced(run.values, count * BytesOf(spec.state));
    if (run.scales != nullptr) run.scales += count / kStateBlock;
  }
  return args;
}

void CheckArgs(const KernelSpec& spec, const KernelArgs& args) {
  if (args.count == 0) return;
  SLUICE_CHECK(args.parameters != nullptr && args.gradients != nullptr,
               "an update has parameters and gradients");
  SLUICE_CHECK(spec.copy == CopyType::kNone || args.copy != nullptr, "the copy has a place");
  for (int i = 0; i < StateCount(spec.optimizer); ++i) {
    SLUICE_CHECK(args.states[i].values != nullptr, "an update has its optimizer's states");
    if (spec.state != StateType::k8Bit) continue;
    SLUICE_CHECK(args.states[i].scales != nullptr, "8-bit states have scales");
    SLUICE_CHECK(args.element % kStateBlock == 0, "8-bit states are cut at their blocks");
  }
}

/// A run whose gradients are multiplied by grad_power first, block by block in a buffer: the loops
/// of the kernels know one factor.
bool UpdateWithPower(UpdateFn update, const KernelSpec& spec, KernelArgs args) {
  KernelSpec of_buffer = spec;
  of_buffer.gradient = GradientType::kFp32;
  alignas(64) std::array<float, kStateBlock> buffer;
  bool finite = true;
  while (args.count > 0) {
    KernelArgs block = args;
    block.count = std::min(args.count, kStateBlock);
    AddGradients({.sum = buffer.data(),
                  .type = spec.gradient,
                  .gradients = args.gradients,
                  .count = block.count,
                  .first = true});
    for (std::size_t i = 0; i < block.count; ++i) buffer[i] *= args.scalars.grad_power;
    block.gradients = buffer.data();
    finite = update(of_buffer, block) && finite;
    args = Rest(spec, args, block.count);
  }
  return finite;
}

}  // namespace

int StateCount(OptimizerKind kind) {
  return kind == OptimizerKind::kAdam || kind == OptimizerKind::kAdamW ? 2 : 1;
}

ElementBytes BytesPerElement(const KernelSpec& spec) {
  const double scale =
      spec.state == StateType::k8Bit ? double{sizeof(float)} / double{kStateBlock} : 0.0;
  return {.parameter = static_cast<double>(BytesOf(spec.parameter)),
          .gradient = static_cast<double>(BytesOf(spec.gradient)),
          .states = StateCount(spec.optimizer) * (static_cast<double>(BytesOf(spec.state)) + scale),
          .copy = static_cast<double>(BytesOf(spec.copy))};
}

std::span<const SimdTarget> SupportedSimdTargets() {
  static constexpr std::array kAll = {
      SimdTarget::kScalar, SimdTarget::kSse4, SimdTarget::kAvx2, SimdTarget::kAvx512};
  const auto widest = std::find(kAll.begin(), kAll.end(), BestSimdTarget());
  return {kAll.begin(), widest + 1};
}

SimdTarget BestSimdTarget() {
  for (const TargetName& target : kTargets) {
    if (IsSupported(target)) return target.target;
  }
  return SimdTarget::kScalar;
}

absl::StatusOr<Kernel> FindKernel(const KernelSpec& spec, SimdTarget target) {
  if (absl::Status status = CheckSpec(spec); !status.ok()) return status;
  const SimdTarget wanted = target == SimdTarget::kBest ? BestSimdTarget() : target;
  for (const TargetName& each : kTargets) {
    if (each.target != wanted || !IsSupported(each)) continue;
    return Kernel(spec, wanted, FindUpdate(spec, each.highway));
  }
  return absl::UnimplementedError(
      base::ToAbsl("this processor does not have the instructions of \"" +
                   std::string(ToString(wanted)) + "\"; best takes the widest that it has"));
}

bool Kernel::operator()(const KernelArgs& args) const {
  CheckArgs(spec_, args);
  const DefaultFloatEnvironment environment;
  KernelArgs left = args;
  bool finite = true;
  while (left.count > 0) {
    // Random words are keyed anew every 2^32 elements.
    const std::uint64_t room = kKeyedElements - left.element % kKeyedElements;
    KernelArgs part = left;
    part.count = static_cast<std::size_t>(std::min<std::uint64_t>(left.count, room));
    const bool has_power = part.scalars.grad_power != 1;
    finite = (has_power ? UpdateWithPower(update_, spec_, part) : update_(spec_, part)) && finite;
    left = Rest(spec_, left, part.count);
  }
  return finite;
}

}  // namespace sluice::optim
