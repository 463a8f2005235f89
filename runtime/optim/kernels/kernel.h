#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "sluice/optimizer.h"

/// Optimizer kernels: one call updates one run of elements in place. docs/optimizer-kernels.md has
/// the contract that every implementation is held to: formulas, order of operations, rounding, the
/// generator and the 8-bit maps.

namespace sluice::optim {

using sluice::OptimizerKind;
using sluice::StateType;
using sluice::ToString;

enum class ParameterType : std::uint8_t { kFp32, kBf16 };  ///< bf16: rounded stochastically
enum class GradientType : std::uint8_t { kFp32, kBf16, kFp16 };
enum class CopyType : std::uint8_t { kNone, kBf16, kFp16 };

/// "fp32", "bf16", "fp16", "none".
std::string_view ToString(ParameterType type);
std::string_view ToString(GradientType type);
std::string_view ToString(CopyType type);

/// Types that a kernel works on. Only fp32 parameters may have a copy: bf16 parameters are their
/// own.
struct KernelSpec {
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  ParameterType parameter = ParameterType::kFp32;
  StateType state = StateType::kFp32;
  GradientType gradient = GradientType::kFp32;
  CopyType copy = CopyType::kNone;
};

/// States per element: 2 for Adam and AdamW, else 1.
int StateCount(OptimizerKind kind);

/// Bytes by which kernels ask for each stream ahead of need, measured in docs/results/optim.md.
inline constexpr std::size_t kBytesAhead = 2560;

/// Elements per block of an 8-bit state; each block has one fp32 scale.
inline constexpr std::size_t kStateBlock = 256;

/// Bytes per element; those of 8-bit states include their scales.
struct ElementBytes {
  double parameter = 0;
  double gradient = 0;
  double states = 0;
  double copy = 0;

  /// Bytes that an update reads and writes.
  double Moved() const { return 2 * parameter + gradient + 2 * states + copy; }
  /// Bytes that the optimizer keeps: gradient and copy do not count.
  double Kept() const { return parameter + states; }
};
ElementBytes BytesPerElement(const KernelSpec& spec);

/// Scalars of one update. An optimizer ignores those that it does not use:
/// docs/optimizer-kernels.md.
struct KernelScalars {
  double learning_rate = 0;
  float beta1 = 0;  ///< first beta; for SGD the momentum
  float beta2 = 0;
  double eps = 0;
  float weight_decay = 0;
  float grad_power = 1;  ///< power of two that multiplies every gradient before grad_scale
  /// Factor after grad_power; both together are clip factor / loss scale.
  float grad_scale = 1;
  double moment1_scale = 1;  ///< correction of Adam's first moment: 1 / (1 - beta1^t)
  double moment2_scale = 1;  ///< correction of Adam's second moment: 1 / (1 - beta2^t)
};

/// Key of a stochastic rounding, which depends on nothing else but the element's index.
struct RoundingKey {
  std::uint64_t seed = 0;
  std::uint64_t tensor = 0;
  std::uint64_t step = 0;
};

/// One state of a run of elements. Align: that of the type.
struct StateRun {
  void* values = nullptr;
  /// Scales of 8-bit states: the largest magnitude of each block. A block with nothing but zeros
  /// has 0.
  float* scales = nullptr;
};

/// One run of elements. Align: each pointer that of its type. REQUIRES: memory that is written
/// overlaps no other memory of the run.
struct KernelArgs {
  KernelScalars scalars;
  RoundingKey key;
  std::uint64_t element =
      0;                  ///< first element's index in its tensor; 8-bit: a multiple of kStateBlock
  std::size_t count = 0;  ///< elements; 8-bit: a multiple of kStateBlock but at the tensor's end
  void* parameters = nullptr;
  const void* gradients = nullptr;
  StateRun states[2];
  void* copy = nullptr;  ///< elements that are overwritten
};

/// The instructions a kernel is made of. kBest: the widest that this processor has.
enum class SimdTarget : std::uint8_t { kBest, kScalar, kSse4, kAvx2, kAvx512 };
std::string_view ToString(SimdTarget target);

/// Targets that this processor has, narrowest first, without kBest.
std::span<const SimdTarget> SupportedSimdTargets();
/// The target that kBest stands for on this processor.
SimdTarget BestSimdTarget();

/// The loop of a kernel. REQUIRES: no run crosses a multiple of 2^32 elements.
using UpdateFn = bool (*)(const KernelSpec& spec, const KernelArgs& args);

/// The update of one combination, made of the instructions of one target.
class Kernel {
 public:
  /// Updates one run. The bits are the same on every target and however a tensor is cut into runs.
  /// Returns false when a scaled gradient was not finite. The elements that it met are then no
  /// numbers either, so an optimizer that may skip a step scans the gradients first
  /// (gradient_scan.h).
  ///
  /// Threads: any, on runs that do not overlap. A kernel rounds to nearest and keeps denormals,
  /// whatever the thread's settings are.
  bool operator()(const KernelArgs& args) const;

  const KernelSpec& spec() const { return spec_; }
  SimdTarget target() const { return target_; }

 private:
  friend absl::StatusOr<Kernel> FindKernel(const KernelSpec& spec, SimdTarget target);
  Kernel(const KernelSpec& spec, SimdTarget target, UpdateFn update)
      : spec_(spec), target_(target), update_(update) {}

  KernelSpec spec_;
  SimdTarget target_;
  UpdateFn update_;
};

/// Finds the kernel of a combination. Errors: InvalidArgument (a combination that has no kernel),
/// Unimplemented (a target that this processor does not have).
absl::StatusOr<Kernel> FindKernel(const KernelSpec& spec, SimdTarget target = SimdTarget::kBest);

}  // namespace sluice::optim
