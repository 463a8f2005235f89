#pragma once

#include <cstdint>
#include <vector>

namespace sluice::faults {

/// Action of the user of some tensors.
enum class TraceKind : std::uint8_t {
  kRead,       ///< lease to read, compare
  kOverwrite,  ///< lease to overwrite, fill
  kUpdate,     ///< lease to write, compare, change some pages
  kCompute,    ///< one lease of two tensors: read `tensor`, overwrite `other`
  kDiscard,
  kRecreate,  ///< free, and create again
  kPrefetch,
};

struct TraceStep {
  TraceKind kind = TraceKind::kRead;
  std::uint32_t tensor = 0;
  std::uint32_t other = 0;
};

struct TensorShape {
  std::uint32_t pages = 1;
  /// Whether a callback restores lost pages.
  bool reproducible = false;
};

struct Trace {
  std::uint64_t seed = 0;
  std::vector<TensorShape> tensors;
  std::vector<TraceStep> steps;
};

/// Writes every tensor once, then does `steps` things at random: the same for the same seed.
Trace MakeTrace(std::uint64_t seed, std::uint32_t steps);

}  // namespace sluice::faults
