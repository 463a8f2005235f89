#pragma once

#include <cstdint>

#include "runtime/optim/kernel.h"

namespace sluice::optim {

/// The keys of the random words of 2^32 elements.
struct WordKeys {
  struct Pair {
    std::uint32_t first = 0;
    std::uint32_t second = 0;
  };
  Pair word;
  std::uint32_t next = 0;
};

namespace internal {

inline constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;

constexpr std::uint64_t Mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

constexpr WordKeys::Pair Halves(std::uint64_t x) {
  return {static_cast<std::uint32_t>(x & 0xffffffff), static_cast<std::uint32_t>(x >> 32)};
}

}  // namespace internal

/// `high`: the upper half of the elements' indices.
constexpr WordKeys MakeWordKeys(const RoundingKey& key, std::uint64_t high) {
  std::uint64_t hash = 0;
  for (const std::uint64_t word : {key.seed, key.tensor, key.step, high}) {
    hash = internal::Mix((hash ^ word) + internal::kGolden);
  }
  return {internal::Halves(internal::Mix(hash + internal::kGolden)),
          internal::Halves(internal::Mix(hash + 2 * internal::kGolden)).first};
}

}  // namespace sluice::optim
