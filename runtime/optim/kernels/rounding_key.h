#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/optim/kernels/kernel.h"

namespace sluice::optim {

/// Keys of the random words of 2^32 elements: `start` for the words' source, `words` for each
/// number that is rounded.
struct WordKeys {
  struct Pair {
    std::uint32_t first = 0;
    std::uint32_t second = 0;
  };
  Pair start;
  std::uint32_t words[3] = {};
};

/// Number of the element's word among those of its 2^32 elements. Two neighbours share a word.
constexpr std::uint32_t WordOf(std::uint64_t element) {
  return static_cast<std::uint32_t>(element & 0xffffffff) / 2;
}

/// Whether the element's bits are the upper half of its word.
constexpr bool IsUpperHalf(std::uint64_t element) { return element % 2 == 1; }

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
  const auto start = internal::Halves(internal::Mix(hash + internal::kGolden));
  const auto words = internal::Halves(internal::Mix(hash + 2 * internal::kGolden));
  const auto third = internal::Halves(internal::Mix(hash + 3 * internal::kGolden));
  return {.start = start, .words = {words.first, words.second, third.first}};
}

}  // namespace sluice::optim
