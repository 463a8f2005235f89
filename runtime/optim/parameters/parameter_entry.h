#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/optim/kernels/kernel.h"
#include "sluice/optimizer.h"

namespace sluice::optim {

/// One parameter with its tensors and bindings. A step's fields do not change while it runs.
struct ParameterEntry {
  std::string name;
  TensorId tensor;              ///< tensor that is updated; none: `memory` is updated
  std::span<std::byte> memory;  ///< the caller's memory; empty: `tensor` is updated
  bool has_master = false;      ///< whether `tensor` is a master of a ParameterBinding
  std::uint32_t group = 0;
  std::uint64_t index = 0;        ///< number in the order of addition; decides its roundings
  std::int64_t steps_before = 0;  ///< optimizer steps that the parameter has had no part in
  ParameterType type = ParameterType::kFp32;
  std::uint64_t count = 0;
  std::vector<std::int64_t> shape;
  std::vector<TensorId> states;
  std::vector<TensorId> scales;  ///< scales of 8-bit states
  TensorId accumulator;
  std::optional<GradientBinding> gradient;
  std::optional<CopyBinding> copy;

  /// Sets the caller's memory of the parameter: with a master, that of its copy.
  void SetMemory(std::span<std::byte> bytes) { (has_master ? copy->bytes : memory) = bytes; }
};

/// The parameter's own count at a step of the optimizer: its moments began with it.
inline std::int64_t OwnStep(const ParameterEntry& entry, std::int64_t optimizer_step) {
  return optimizer_step - entry.steps_before;
}

/// Elements of a parameter that are updated in one op.
struct Part {
  std::uint32_t entry = 0;
  std::uint32_t index = 0;
};

/// Size of a part: at most a page of every tensor, if the tensor starts at a page.
struct PartSize {
  std::uint64_t elements = 0;

  std::uint32_t PartsOf(const ParameterEntry& entry) const {
    return static_cast<std::uint32_t>((entry.count + elements - 1) / elements);
  }
  ElementRange RangeOf(const ParameterEntry& entry, std::uint32_t part) const {
    const std::uint64_t begin = part * elements;
    return {begin, std::min(elements, entry.count - begin)};
  }
};

inline std::size_t BytesOf(ParameterType type) { return type == ParameterType::kBf16 ? 2 : 4; }
inline std::size_t BytesOf(GradientType type) { return type == GradientType::kFp32 ? 4 : 2; }
inline std::size_t BytesOf(CopyType type) { return type == CopyType::kNone ? 0 : 2; }
/// Bytes of one element, without its share of a scale.
inline std::size_t BytesOf(StateType type) {
  if (type == StateType::k8Bit) return 1;
  return type == StateType::kBf16 ? 2 : 4;
}

inline std::optional<GradientType> GradientTypeOf(DType type) {
  if (type == DType::kF32) return GradientType::kFp32;
  if (type == DType::kBF16) return GradientType::kBf16;
  if (type == DType::kF16) return GradientType::kFp16;
  return std::nullopt;
}

/// Type of a copy, from a type that BindCopy takes.
inline CopyType CopyTypeOf(DType type) {
  return type == DType::kBF16 ? CopyType::kBf16 : CopyType::kFp16;
}

inline bool Overlap(std::span<const std::byte> a, std::span<const std::byte> b) {
  const auto begin = [](auto span) { return reinterpret_cast<std::uintptr_t>(span.data()); };
  return begin(a) < begin(b) + b.size() && begin(b) < begin(a) + a.size();
}

/// The bytes of elements of a tensor.
inline ByteRange BytesOfElements(ElementRange elements, std::size_t element_bytes) {
  return {elements.begin * element_bytes, elements.count * element_bytes};
}

/// The scales of the blocks that have an element in the range.
inline ByteRange BytesOfScales(ElementRange elements) {
  const std::uint64_t begin = elements.begin / kStateBlock;
  const std::uint64_t end = (elements.begin + elements.count + kStateBlock - 1) / kStateBlock;
  return {begin * sizeof(float), (end - begin) * sizeof(float)};
}

}  // namespace sluice::optim
