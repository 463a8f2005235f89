#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "sluice/optimizer.h"

namespace sluice::optim {

/// Elements of a tensor that share a summand of its checksum (block_sum.h). They fill the smallest
/// page, so that every part is whole blocks, whatever the size of pages.
inline constexpr std::uint64_t kSumElements = 1024;

/// A tensor in a save.
struct SavedTensor {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint64_t block_bytes = 0;  ///< bytes of a block of its checksum
};

/// The tensors of a layout (OptimizerSaves::Layout) in the order of a save: each
/// parameter, its states, their scales. Errors: DataLoss (no layout).
absl::StatusOr<std::vector<SavedTensor>> TensorsOfLayout(const std::string& layout);

}  // namespace sluice::optim
