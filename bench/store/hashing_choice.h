#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "bench/store/load.h"

namespace sluice::bench {

/// How many pages of a store are being hashed or wait for it. Few: the fewer buffers go round, the
/// more of them are still in a cache when the disk's next bytes are written there. Many: where
/// requests end several at a time, the kernel has too few to do while these are hashed.
std::uint32_t FewHashing(std::uint64_t page_bytes);
std::uint32_t ManyHashing(std::uint64_t page_bytes);

/// Whether a case may be faster with many: one that only reads, where a page is hashed after the
/// kernel is done with it. What is written is hashed meanwhile.
bool MayHashMany(const Case& which);

/// Few or many, whichever gives the higher rate in the mean of four runs of each; few where both
/// are the same. Twice in the order few, many, many, few, so that what changes at an even pace
/// favours neither. `rate`: makes a run. Errors: the first of `rate`, which is then not called
/// again.
absl::StatusOr<std::uint32_t> ChooseHashing(
    std::uint64_t page_bytes,
    absl::FunctionRef<absl::StatusOr<double>(std::uint32_t hashing)> rate);

}  // namespace sluice::bench
