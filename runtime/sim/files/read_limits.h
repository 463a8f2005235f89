#pragma once

#include <cstddef>
#include <cstdint>

#include "sluice/units.h"

namespace sluice::sim {

/// Limits of a schedule file. The reader refuses a file above one with an error that names the
/// limit. Memory stays below about twice `model` plus a few times `line`.
struct ReadLimits {
  /// The whole text, decompressed.
  Bytes text{std::uint64_t{2} << 30};
  /// One line, decompressed.
  Bytes line{std::uint64_t{8} << 20};
  /// Numbers, texts, lists and objects in one line.
  std::uint64_t values = std::uint64_t{1} << 20;
  /// Depth of lists and objects in each other.
  int depth = 8;
  /// A name, a key, a lane.
  Bytes text_field{4096};
  /// Number of lanes of one schedule. Each may have an op that waits, and ops that wait are looked
  /// at after every event.
  std::size_t lanes = 1024;
  /// Memory of all schedules of the file, without the rests of growing arrays.
  Bytes model{std::uint64_t{1} << 30};
};

}  // namespace sluice::sim
