#pragma once

#include <cstdint>
#include <vector>

namespace sluice::analysis {

/// Fate of tensors between the ops that write them and those that read them much later.
enum class Relief : std::uint8_t {
  kKeep,       ///< tensors stay above
  kOffload,    ///< tensors cross the links, out and in again
  kRecompute,  ///< tensors are discarded, and made again
};

/// Tensors with one relief, such as the activations of a layer.
struct RecomputeCandidate {
  double bytes = 0;
  double recompute_seconds = 0;  ///< seconds that making them again takes
  double idle_seconds = 0;       ///< seconds between the last use before and the first one after
};

/// A link. Seconds are per byte: of each direction alone, and of both together.
struct RecomputeLink {
  double in_seconds = 0;
  double out_seconds = 0;
  double both_seconds = 0;
  /// Bytes that cross the link in an iteration whatever becomes of the candidates.
  double in_bytes = 0;
  double out_bytes = 0;
  /// Bytes by which live tensors exceed the tiers above the link when the last candidate is
  /// written. The candidates are relieved of as much.
  double excess_bytes = 0;
};

struct RecomputeProblem {
  std::vector<RecomputeCandidate> candidates;
  std::vector<RecomputeLink> links;
  /// Compute of an iteration that recomputes nothing; it hides transfers. First all candidates are
  /// written, then all are read.
  double write_seconds = 0;
  double read_seconds = 0;
};

/// Seconds are those of an iteration by the reckoning of PlanRecompute.
struct RecomputePlan {
  std::vector<Relief> reliefs;  ///< relief of each candidate
  double seconds = 0;
  std::vector<double> link_seconds;  ///< seconds per link, hidden or not
};

/// Chooses a relief for each candidate until all that lives fits. Offloaded candidates must be out
/// when the last candidate is written, and come in after that. So each of the two parts of an
/// iteration is taken to last as long as its compute or its busiest link. The parts of round trips
/// that are longer than their idle time are added.
///
/// One candidate after another gets the relief that costs the least per byte-second relieved.
/// Transfers that hide are offloaded at no cost until a link is full. After that the cheaper of
/// waiting and recomputing is taken. The result is no slower than offloading everything and no
/// slower than recomputing everything. O(candidates^2 * links).
RecomputePlan PlanRecompute(const RecomputeProblem& problem);

/// Does PlanRecompute with one relief for all candidates that must leave.
RecomputePlan PlanUniform(const RecomputeProblem& problem, Relief relief);

}  // namespace sluice::analysis
