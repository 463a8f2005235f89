#pragma once

#include <cstdint>
#include <span>

namespace sluice::optim {

/// The checksum of a tensor in a save: the sum, modulo 2^64, of one number for each of its blocks,
/// XXH3-64 of the block's number and of the XXH3-64 of its bytes. Sums of parts add up in any order
/// and have the same result however the parts were cut.

/// The summands of the blocks that `pieces` hold one after another, from byte `offset` of the
/// tensor on. REQUIRES: whole blocks, but for the tensor's last one.
std::uint64_t SumOfBlocks(std::uint64_t block_bytes,
                          std::uint64_t offset,
                          std::span<const std::span<std::byte>> pieces);

}  // namespace sluice::optim
