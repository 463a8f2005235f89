#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "runtime/optim/kernels/kernel.h"
#include "runtime/optim/optimizer/parameter_entry.h"
#include "runtime/optim/step/pieces.h"

namespace sluice::optim {

/// Where the elements of one part are, the first of each at index 0.
struct PartMemory {
  Pieces parameter;
  Pieces gradient;
  Pieces states[2];
  Pieces scales[2];  ///< scales of 8-bit states, one per block
  Pieces copy;       ///< empty: none
};

/// What the op of a part touches, in the order of PartMemory; the caller's own memory takes no
/// part.
struct PartAccesses {
  std::vector<Access> accesses;
  bool parameter = false;  ///< whether that is a tensor
  bool gradient = false;
  bool copy = false;
};

/// `gradient`: the tensor that has it, or none when that is the caller's memory.
PartAccesses AccessesOf(const ParameterEntry& entry,
                        const KernelSpec& spec,
                        TensorId gradient,
                        ElementRange elements);
/// `gradient`, `copy`: the caller's memory of the whole parameter, where it is that.
PartMemory MemoryOf(const ParameterEntry& entry,
                    const KernelSpec& spec,
                    const PartAccesses& accesses,
                    std::span<const Lease> leases,
                    ElementRange elements);

/// The node of Runtime::DramNodes with the most bytes of the leases; of two, the first.
std::size_t NodeWithMost(std::span<const Lease> leases);

/// Updates elements [begin, end) of the part. `args`: scalars, key, and the index of the part's
/// first element. REQUIRES: with 8-bit states, begin a multiple of kStateBlock.
/// Threads: any, on ranges that do not overlap.
void UpdateElements(const Kernel& kernel,
                    KernelArgs args,
                    const PartMemory& memory,
                    std::size_t begin,
                    std::size_t end);

}  // namespace sluice::optim
