#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "bench/store/load.h"

namespace sluice::bench {

/// How many operations of a store are outstanding beyond the depth, being hashed or waiting for it.
/// Few: the fewer buffers go round, the more of them are still in a cache of the host when the
/// disk's next bytes go there or come from there; what only writes has none beyond the depth, and
/// so as many buffers as fio. Many: where requests end several at a time, the kernel has too few to
/// do while these are hashed.
std::uint32_t FewHashing(const Case& which);
std::uint32_t ManyHashing(const Case& which);

/// Whether a case may be faster with many: one that only reads, where a page is hashed after the
/// kernel is done with it. What is written is hashed meanwhile.
bool MayHashMany(const Case& which);

/// Few or many, whichever gives the higher rate in the mean of four runs of each; few where both
/// are the same. Twice in the order few, many, many, few, so that what changes at an even pace
/// favours neither. `rate`: makes a run. Errors: the first of `rate`, which is then not called
/// again.
absl::StatusOr<std::uint32_t> ChooseHashing(
    const Case& which, absl::FunctionRef<absl::StatusOr<double>(std::uint32_t hashing)> rate);

}  // namespace sluice::bench
