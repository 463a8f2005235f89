#include "runtime/optim/step/update_batch.h"

#include <algorithm>

namespace sluice::optim {

std::vector<UpdateBatch> MakeBatches(const std::deque<ParameterEntry>& entries,
                                     const PartSize& size,
                                     const std::vector<Part>& parts,
                                     std::size_t parts_max,
                                     std::uint32_t group) {
  std::vector<UpdateBatch> batches;
  std::uint64_t elements = 0;
  for (const Part part : parts) {
    const std::uint64_t count = size.RangeOf(entries[part.entry], part.index).count;
    const bool fits = !batches.empty() && batches.back().parts.size() < parts_max &&
                      elements + count <= kBatchElements;
    if (!fits) {
      batches.push_back({.parts = {}, .group = group});
      elements = 0;
    }
    batches.back().parts.push_back(part);
    elements += count;
  }
  return batches;
}

std::uint64_t ElementsOf(const std::deque<ParameterEntry>& entries,
                         const PartSize& size,
                         const UpdateBatch& batch) {
  std::uint64_t elements = 0;
  for (const Part part : batch.parts) {
    elements += size.RangeOf(entries[part.entry], part.index).count;
  }
  return elements;
}

bool HasCopies(const std::deque<ParameterEntry>& entries, const UpdateBatch& batch) {
  return std::any_of(batch.parts.begin(), batch.parts.end(), [&entries](Part part) {
    const ParameterEntry& entry = entries[part.entry];
    return entry.copy && entry.copy->tensor != TensorId();
  });
}

}  // namespace sluice::optim
