#include "runtime/analysis/recompute/recompute.h"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <limits>
#include <utility>

namespace sluice::analysis {
namespace {

/// An iteration with the reliefs chosen so far.
class Reckoning {
 public:
  explicit Reckoning(const RecomputeProblem& problem)
      : links_(problem.links), moved_(links_.size()), problem_(problem) {}

  bool fits() const {
    return std::all_of(links_.begin(), links_.end(), [](const RecomputeLink& link) {
      return link.excess_bytes <= 0;
    });
  }

  void Add(const RecomputeCandidate& candidate, Relief relief) {
    double round_trip = 0;
    for (std::size_t i = 0; i < links_.size(); ++i) {
      RecomputeLink& link = links_[i];
      const double bytes = std::clamp(link.excess_bytes, 0.0, candidate.bytes);
      link.excess_bytes -= bytes;
      if (relief == Relief::kRecompute) continue;
      moved_[i] += bytes;
      round_trip = std::max(round_trip, bytes * (link.in_seconds + link.out_seconds));
    }
    if (relief == Relief::kRecompute) recompute_ += candidate.recompute_seconds;
    exposed_ += std::max(0.0, round_trip - candidate.idle_seconds);
  }

  double Seconds() const {
    double write = problem_.write_seconds;
    double read = problem_.read_seconds + recompute_;
    for (std::size_t i = 0; i < links_.size(); ++i) {
      write = std::max(write, WriteSeconds(i));
      read = std::max(read, ReadSeconds(i));
    }
    return write + read + exposed_;
  }

  std::vector<double> LinkSeconds() const {
    std::vector<double> seconds;
    for (std::size_t i = 0; i < links_.size(); ++i) {
      seconds.push_back(WriteSeconds(i) + ReadSeconds(i));
    }
    return seconds;
  }

 private:
  /// Seconds of a link while candidates are written, when the offloaded ones go out.
  double WriteSeconds(std::size_t link) const {
    return SecondsOf(links_[link], WriteShare(), 0, moved_[link]);
  }
  /// Seconds of a link while candidates are read, when the offloaded ones come in.
  double ReadSeconds(std::size_t link) const {
    return SecondsOf(links_[link], 1 - WriteShare(), moved_[link], 0);
  }
  double WriteShare() const {
    const double all = problem_.write_seconds + problem_.read_seconds;
    return all > 0 ? problem_.write_seconds / all : 0;
  }

  /// Seconds of a share of the bytes that cross in any case, and of the moved ones.
  static double SecondsOf(const RecomputeLink& link, double share, double in, double out) {
    in += share * link.in_bytes;
    out += share * link.out_bytes;
    return std::max({in * link.in_seconds, out * link.out_seconds, (in + out) * link.both_seconds});
  }

  std::vector<RecomputeLink> links_;
  std::vector<double> moved_;  ///< bytes of candidates per link, out and in again
  double recompute_ = 0;
  double exposed_ = 0;  ///< seconds of round trips beyond their idle time
  const RecomputeProblem& problem_;
};

/// A relief of one candidate, and what it costs.
struct Pick {
  std::size_t candidate = 0;
  Relief relief = Relief::kKeep;
  double cost = std::numeric_limits<double>::infinity();  ///< seconds per byte-second
  double byte_seconds = 0;

  /// Whether the pick beats the other: by its cost, or at the same cost by relieving more.
  bool Beats(const Pick& other) const {
    return std::pair(cost, -byte_seconds) < std::pair(other.cost, -other.byte_seconds);
  }
};

Pick Price(const RecomputeProblem& problem,
           const Reckoning& now,
           std::size_t candidate,
           Relief relief) {
  const RecomputeCandidate& one = problem.candidates[candidate];
  Reckoning then = now;
  then.Add(one, relief);
  const double byte_seconds = one.bytes * one.idle_seconds;
  const double seconds = then.Seconds() - now.Seconds();
  const double cost = seconds > 0 ? seconds / byte_seconds : 0;
  return {candidate, relief, cost, byte_seconds};
}

/// Chooses while something must leave, among `allowed` reliefs; at the same cost the first one.
RecomputePlan Choose(const RecomputeProblem& problem, std::initializer_list<Relief> allowed) {
  RecomputePlan plan{.reliefs = std::vector<Relief>(problem.candidates.size(), Relief::kKeep)};
  Reckoning reckoning(problem);
  while (!reckoning.fits()) {
    Pick best;
    for (std::size_t i = 0; i < plan.reliefs.size(); ++i) {
      if (plan.reliefs[i] != Relief::kKeep) continue;
      for (const Relief relief : allowed) {
        const Pick pick = Price(problem, reckoning, i, relief);
        if (best.relief == Relief::kKeep || pick.Beats(best)) best = pick;
      }
    }
    if (best.relief == Relief::kKeep) break;  // all have left, and what stays is still too much
    plan.reliefs[best.candidate] = best.relief;
    reckoning.Add(problem.candidates[best.candidate], best.relief);
  }
  plan.seconds = reckoning.Seconds();
  plan.link_seconds = reckoning.LinkSeconds();
  return plan;
}

}  // namespace

RecomputePlan PlanRecompute(const RecomputeProblem& problem) {
  RecomputePlan best = PlanUniform(problem, Relief::kOffload);
  for (RecomputePlan other : {Choose(problem, {Relief::kOffload, Relief::kRecompute}),
                              PlanUniform(problem, Relief::kRecompute)}) {
    if (other.seconds < best.seconds) best = std::move(other);
  }
  return best;
}

RecomputePlan PlanUniform(const RecomputeProblem& problem, Relief relief) {
  return Choose(problem, {relief});
}

}  // namespace sluice::analysis
