#include "runtime/optim/save/block_sum.h"

#include <algorithm>
#include <cstddef>

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

namespace sluice::optim {
namespace {

std::uint64_t SummandOf(std::uint64_t number, std::uint64_t hash) {
  const std::uint64_t both[] = {number, hash};
  return XXH3_64bits(both, sizeof(both));
}

/// Goes through blocks that may be cut anywhere.
class BlockWalk {
 public:
  BlockWalk(std::uint64_t block_bytes, std::uint64_t first) : bytes_(block_bytes), next_(first) {}

  void Add(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const std::size_t size = std::min<std::size_t>(bytes_ - filled_, bytes.size());
      if (size == bytes_) {
        sum_ += SummandOf(next_++, XXH3_64bits(bytes.data(), size));
      } else {
        AddPiece(bytes.first(size));
      }
      bytes = bytes.subspan(size);
    }
  }

  std::uint64_t Sum() {
    if (filled_ > 0) EndBlock();
    return sum_;
  }

 private:
  void AddPiece(std::span<const std::byte> bytes) {
    if (filled_ == 0) XXH3_64bits_reset(&state_);
    XXH3_64bits_update(&state_, bytes.data(), bytes.size());
    filled_ += bytes.size();
    if (filled_ == bytes_) EndBlock();
  }
  void EndBlock() {
    sum_ += SummandOf(next_++, XXH3_64bits_digest(&state_));
    filled_ = 0;
  }

  const std::uint64_t bytes_;
  std::uint64_t next_;
  std::uint64_t filled_ = 0;  ///< bytes of the block that is cut
  std::uint64_t sum_ = 0;
  XXH3_state_t state_;
};

}  // namespace

std::uint64_t SumOfBlocks(std::uint64_t block_bytes,
                          std::uint64_t offset,
                          std::span<const std::span<std::byte>> pieces) {
  BlockWalk walk(block_bytes, offset / block_bytes);
  for (const std::span<std::byte> piece : pieces) walk.Add(piece);
  return walk.Sum();
}

}  // namespace sluice::optim
