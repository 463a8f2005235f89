#pragma once

#include <cstddef>
#include <cstdint>

#include "sluice/units.h"

namespace sluice::sim {

/// What a schedule file may ask of its reader. Above, it is refused with an error that names the
/// limit; memory stays below about twice `model` plus a few times `line`.
struct ReadLimits {
  /// Decompressed, in all.
  Bytes text{std::uint64_t{2} << 30};
  /// One line, decompressed.
  Bytes line{std::uint64_t{8} << 20};
  /// Numbers, texts, lists and objects in one line.
  std::uint64_t values = std::uint64_t{1} << 20;
  /// Lists and objects in each other.
  int depth = 8;
  /// A name, a key, a lane.
  Bytes text_field{4096};
  /// Of one schedule: each may have an op that waits, and who waits is looked at after every event.
  std::size_t lanes = 1024;
  /// What is kept of all schedules of the file, without the rests of growing arrays.
  Bytes model{std::uint64_t{1} << 30};
};

}  // namespace sluice::sim
