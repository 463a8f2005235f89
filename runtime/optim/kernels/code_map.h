#pragma once

#include <array>

/// The maps of 8-bit states: docs/optimizer-kernels.md.

namespace sluice::optim {

enum class Sign { kSigned, kUnsigned };

/// Levels of a map. Level n holds the codes 2^n to 2^(n + 1) - 1. They divide the values above
/// base^(n - 1 - top) up to base^(n - top) evenly. Level 0 has one code for all its values above 0.
template <Sign kSign>
struct CodeMap {
  static constexpr int kTop = kSign == Sign::kSigned ? 6 : 7;
  static constexpr int kBaseLog2 = kSign == Sign::kSigned ? 3 : 4;
  static constexpr float kBase = 1 << kBaseLog2;
};

/// Lines, one per level. The eight lines are there twice, for vectors of sixteen lanes.
struct LevelLines {
  std::array<float, 16> slopes{};
  std::array<float, 16> offsets{};
};

constexpr float PowerOfTwo(int exponent) {
  float power = 1;
  for (int i = 0; i < exponent; ++i) power *= 2;
  for (int i = 0; i > exponent; --i) power /= 2;
  return power;
}

/// Lines by level: value = slope * code + offset, all exact.
template <Sign kSign>
constexpr LevelLines MakeValueLines() {
  using Map = CodeMap<kSign>;
  LevelLines lines;
  for (int i = 0; i < 16; ++i) {
    const int level = i % 8;
    const float end = PowerOfTwo(Map::kBaseLog2 * (level - Map::kTop));
    const float steps = PowerOfTwo(level);
    lines.slopes[i] = level == 0 ? end : end * (1 - 1 / Map::kBase) / steps;
    lines.offsets[i] = level == 0 ? 0 : end - lines.slopes[i] * (2 * steps - 1);
  }
  return lines;
}

/// Lines by levels below the top: code = slope * ratio + offset, rounded to an integer.
template <Sign kSign>
constexpr LevelLines MakeCodeLines() {
  using Map = CodeMap<kSign>;
  LevelLines lines;
  for (int i = 0; i < 16; ++i) {
    const int down = i % 8 < Map::kTop ? i % 8 : Map::kTop;
    const float steps = PowerOfTwo(Map::kTop - down);
    const float widen = PowerOfTwo(Map::kBaseLog2 * down);
    const bool lowest = down == Map::kTop;
    lines.slopes[i] = lowest ? widen : Map::kBase / (Map::kBase - 1) * steps * widen;
    lines.offsets[i] = lowest ? 0 : (1 - 1 / (Map::kBase - 1)) * steps - 1;
  }
  return lines;
}

template <Sign kSign>
inline constexpr LevelLines kValueLines = MakeValueLines<kSign>();
template <Sign kSign>
inline constexpr LevelLines kCodeLines = MakeCodeLines<kSign>();

}  // namespace sluice::optim
