#pragma once

#include <cstdint>

namespace sluice::gpt {

/// A counter-based generator: well-mixed bits of (seed, counter), with no state to carry along.
/// Source: the finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), twice.
constexpr std::uint64_t RandomBits(std::uint64_t seed, std::uint64_t counter) {
  const auto mix = [](std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  };
  return mix(mix(seed + 0x9e3779b97f4a7c15u) + counter * 0x9e3779b97f4a7c15u);
}

/// A number from about the normal distribution with mean 0 and deviation 1: the sum of four uniform
/// 16-bit numbers. It is the same on every machine, as it needs no library function.
constexpr float RandomNormal(std::uint64_t seed, std::uint64_t counter) {
  const std::uint64_t bits = RandomBits(seed, counter);
  const auto sum = static_cast<std::int32_t>((bits & 0xffff) + ((bits >> 16) & 0xffff) +
                                             ((bits >> 32) & 0xffff) + (bits >> 48));
  // Four uniform numbers on 0..65535 have mean 131070 and deviation sqrt(4 (2^32 - 1) / 12).
  return static_cast<float>(sum - 131070) * (1.0f / 37837.2276f);
}

}  // namespace sluice::gpt
