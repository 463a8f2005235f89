#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "runtime/optim/kernels/kernel.h"
#include "runtime/optim/parameters/parameter_entry.h"
#include "runtime/optim/step/pieces.h"

namespace sluice::optim {

/// Places of the elements of one part; the part's first element has index 0.
struct PartMemory {
  Pieces parameter;
  Pieces gradient;
  Pieces states[2];
  Pieces scales[2];  ///< scales of 8-bit states, one per block
  Pieces copy;       ///< empty: none
};

/// Accesses of the op of a part, in the order of PartMemory. The caller's own memory needs none.
struct PartAccesses {
  std::vector<Access> accesses;
  bool parameter = false;  ///< true if the parameter is a tensor
  bool gradient = false;
  bool copy = false;
};

/// Accesses for an update of `elements`. `gradient`: tensor of the gradient; none if it is in the
/// caller's memory.
PartAccesses AccessesOf(const ParameterEntry& entry,
                        const KernelSpec& spec,
                        TensorId gradient,
                        ElementRange elements);
/// Places of `elements`: in the leases, or in the caller's memory.
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
