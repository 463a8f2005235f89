#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "runtime/optim/parameters/parameter_entry.h"

namespace sluice::optim {

/// Parts of one group that one op updates, in order: an op costs as much as the arithmetic of some
/// ten thousand elements.
struct UpdateBatch {
  std::vector<Part> parts;
  std::uint32_t group = 0;
};

/// Most parts of a batch, where small tensors and small pages would make many ops.
inline constexpr std::size_t kBatchPartsMax = 8;
inline constexpr std::uint64_t kBatchElements = std::uint64_t{1} << 19;

/// Cuts `parts` into batches of at most `parts_max` (at least 1) and kBatchElements, but at least
/// one part. The cuts depend on nothing else, so a step has the same ops as the one before.
std::vector<UpdateBatch> MakeBatches(const std::deque<ParameterEntry>& entries,
                                     const PartSize& size,
                                     const std::vector<Part>& parts,
                                     std::size_t parts_max,
                                     std::uint32_t group);

std::uint64_t ElementsOf(const std::deque<ParameterEntry>& entries,
                         const PartSize& size,
                         const UpdateBatch& batch);

/// Whether the batch writes copies that lie in tensors.
bool HasCopies(const std::deque<ParameterEntry>& entries, const UpdateBatch& batch);

}  // namespace sluice::optim
