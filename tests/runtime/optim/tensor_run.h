#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/optim/kernels/kernel.h"

namespace sluice::optim {

/// All combinations that have a kernel.
std::vector<KernelSpec> AllSpecs();
/// "adamw/fp32/bf16/fp16/none".
std::string NameOf(const KernelSpec& spec);

/// Scalars of a usual third step of an optimizer.
KernelScalars UsualScalars(OptimizerKind kind);

/// A tensor's parameters, gradients, states and copy in the types of a spec. Values are rounded to
/// nearest, and read back exactly.
class TensorRun {
 public:
  TensorRun(const KernelSpec& spec, std::size_t count);
  /// Parameters of about 1, gradients of about 0.1, states that go with them.
  static TensorRun Random(const KernelSpec& spec, std::size_t count, std::uint64_t seed);

  /// A kernel's arguments for [begin, begin + count).
  KernelArgs Args(const KernelScalars& scalars,
                  const RoundingKey& key,
                  std::size_t begin,
                  std::size_t count);

  std::size_t count() const { return count_; }
  float parameter(std::size_t i) const;
  float gradient(std::size_t i) const;
  float state(int k, std::size_t i) const;
  void SetParameter(std::size_t i, float value);
  void SetGradient(std::size_t i, float value);
  /// Sets a state. REQUIRES: no 8-bit states.
  void SetState(int k, std::size_t i, float value);

  /// The first difference; empty if there is none.
  std::string Difference(const TensorRun& other) const;
  /// Numbers that an update writes for one element, in hexadecimal: parameter, states, copy.
  std::string HexOf(std::size_t i) const;

  std::vector<std::uint8_t> parameters, gradients, states[2], copy;
  std::vector<float> scales[2];

 private:
  KernelSpec spec_;
  std::size_t count_;
};

}  // namespace sluice::optim
