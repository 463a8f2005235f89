#include "runtime/optim/step/part_update.h"

#include <algorithm>
#include <array>
#include <span>

#include "runtime/optim/step/range_sweep.h"

namespace sluice::optim {
namespace {

std::size_t StatesOf(const KernelSpec& spec) {
  return static_cast<std::size_t>(StateCount(spec.optimizer));
}

/// The caller's bytes of the elements.
Pieces OwnMemory(std::span<const std::byte> bytes, ElementRange elements, std::size_t size) {
  const ByteRange range = BytesOfElements(elements, size);
  // Memory that is bound as a gradient is only read.
  auto* begin = const_cast<std::byte*>(bytes.data()) + range.offset;
  return {std::span<std::byte>(begin, range.bytes), size};
}

/// Number of elements from `i` on that lie together in every piece, as a kernel needs them.
std::size_t Together(const KernelSpec& spec, const PartMemory& memory, std::size_t i) {
  std::size_t count = std::min(memory.parameter.Together(i), memory.gradient.Together(i));
  if (!memory.copy.empty()) count = std::min(count, memory.copy.Together(i));
  for (std::size_t s = 0; s < StatesOf(spec); ++s) {
    count = std::min(count, memory.states[s].Together(i));
    if (spec.state != StateType::k8Bit) continue;
    count = std::min(count, memory.scales[s].Together(i / kStateBlock) * kStateBlock);
  }
  return count;
}

void PointAt(const KernelSpec& spec, const PartMemory& memory, std::size_t i, KernelArgs* args) {
  args->parameters = memory.parameter.At(i);
  args->gradients = memory.gradient.At(i);
  args->copy = memory.copy.empty() ? nullptr : memory.copy.At(i);
  for (std::size_t s = 0; s < StatesOf(spec); ++s) {
    args->states[s].values = memory.states[s].At(i);
    if (spec.state != StateType::k8Bit) continue;
    args->states[s].scales = reinterpret_cast<float*>(memory.scales[s].At(i / kStateBlock));
  }
}

/// One block that is cut somewhere, put together for as long as it is updated.
class WholeBlock {
 public:
  WholeBlock(const KernelSpec& spec, const PartMemory& memory, std::size_t i, std::size_t count)
      : spec_(spec), memory_(memory), i_(i), count_(count) {
    memory.parameter.CopyOut(i, count, parameters_.data());
    memory.gradient.CopyOut(i, count, gradients_.data());
    for (std::size_t s = 0; s < StatesOf(spec); ++s) {
      memory.states[s].CopyOut(i, count, states_[s].data());
      memory.scales[s].CopyOut(i / kStateBlock, 1, reinterpret_cast<std::byte*>(&scales_[s]));
    }
  }

  void PointAt(KernelArgs* args) {
    args->parameters = parameters_.data();
    args->gradients = gradients_.data();
    args->copy = copies_.data();
    for (std::size_t s = 0; s < StatesOf(spec_); ++s) {
      args->states[s] = {.values = states_[s].data(), .scales = &scales_[s]};
    }
  }

  void PutBack() const {
    memory_.parameter.CopyIn(i_, count_, parameters_.data());
    if (!memory_.copy.empty()) memory_.copy.CopyIn(i_, count_, copies_.data());
    for (std::size_t s = 0; s < StatesOf(spec_); ++s) {
      memory_.states[s].CopyIn(i_, count_, states_[s].data());
      const auto* scale = reinterpret_cast<const std::byte*>(&scales_[s]);
      memory_.scales[s].CopyIn(i_ / kStateBlock, 1, scale);
    }
  }

 private:
  using Buffer = std::array<std::byte, kStateBlock * sizeof(float)>;

  const KernelSpec& spec_;
  const PartMemory& memory_;
  const std::size_t i_;
  const std::size_t count_;
  alignas(64) Buffer parameters_;
  alignas(64) Buffer gradients_;
  alignas(64) Buffer copies_;
  alignas(64) std::array<Buffer, 2> states_;
  float scales_[2] = {};
};

}  // namespace

PartAccesses AccessesOf(const ParameterEntry& entry,
                        const KernelSpec& spec,
                        TensorId gradient,
                        ElementRange elements) {
  PartAccesses result;
  const auto add = [&](TensorId tensor, std::size_t size, AccessMode mode) {
    result.accesses.push_back(InDram(tensor, BytesOfElements(elements, size), mode));
  };
  result.parameter = entry.memory.empty();
  if (result.parameter) add(entry.tensor, BytesOf(spec.parameter), AccessMode::kReadWrite);
  for (const TensorId state : entry.states) {
    add(state, BytesOf(spec.state), AccessMode::kReadWrite);
  }
  for (const TensorId scale : entry.scales) {
    result.accesses.push_back(InDram(scale, BytesOfScales(elements), AccessMode::kReadWrite));
  }
  result.gradient = gradient != TensorId();
  if (result.gradient) add(gradient, BytesOf(spec.gradient), AccessMode::kRead);
  result.copy = entry.copy && entry.copy->tensor != TensorId();
  if (result.copy) add(entry.copy->tensor, BytesOf(spec.copy), AccessMode::kOverwrite);
  return result;
}

PartMemory MemoryOf(const ParameterEntry& entry,
                    const KernelSpec& spec,
                    const PartAccesses& accesses,
                    std::span<const Lease> leases,
                    ElementRange elements) {
  PartMemory memory;
  std::size_t next = 0;
  memory.parameter = accesses.parameter
                         ? Pieces(leases[next++], BytesOf(spec.parameter))
                         : OwnMemory(entry.memory, elements, BytesOf(spec.parameter));
  for (std::size_t s = 0; s < entry.states.size(); ++s) {
    memory.states[s] = Pieces(leases[next++], BytesOf(spec.state));
  }
  for (std::size_t s = 0; s < entry.scales.size(); ++s) {
    memory.scales[s] = Pieces(leases[next++], sizeof(float));
  }
  const std::size_t size = BytesOf(spec.gradient);
  memory.gradient = accesses.gradient ? Pieces(leases[next++], size)
                                      : OwnMemory(entry.gradient->bytes, elements, size);
  if (accesses.copy) {
    memory.copy = Pieces(leases[next++], BytesOf(spec.copy));
  } else if (entry.copy) {
    memory.copy = OwnMemory(entry.copy->bytes, elements, BytesOf(spec.copy));
  }
  return memory;
}

std::size_t NodeWithMost(std::span<const Lease> leases) {
  std::vector<std::uint64_t> bytes(1);
  for (const Lease& lease : leases) {
    for (std::size_t i = 0; i < lease.Nodes().size(); ++i) {
      const std::uint32_t node = lease.Nodes()[i];
      if (bytes.size() <= node) bytes.resize(node + 1);
      bytes[node] += lease.Spans()[i].size();
    }
  }
  return static_cast<std::size_t>(std::max_element(bytes.begin(), bytes.end()) - bytes.begin());
}

void UpdateElements(const Kernel& kernel,
                    KernelArgs args,
                    const PartMemory& memory,
                    std::size_t begin,
                    std::size_t end) {
  const KernelSpec& spec = kernel.spec();
  const std::uint64_t first = args.element;
  for (std::size_t i = begin; i < end; i += args.count) {
    args.element = first + i;
    args.count = std::min(Together(spec, memory, i), end - i);
    const bool cut = spec.state == StateType::k8Bit && args.count < end - i;
    if (cut) args.count -= args.count % kStateBlock;
    if (args.count > 0) {
      PointAt(spec, memory, i, &args);
      kernel(args);
      continue;
    }
    args.count = std::min(kStateBlock, end - i);
    WholeBlock block(spec, memory, i, args.count);
    block.PointAt(&args);
    kernel(args);
    block.PutBack();
  }
}

}  // namespace sluice::optim
