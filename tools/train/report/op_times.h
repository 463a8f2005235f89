#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "sluice/schedule.h"

namespace sluice::tools {

/// Times of the ops of each key in its iterations that ended last. Ops of two iterations are the
/// same op if their names, and their places among the ops of that name, are the same.
/// Threads: externally synchronised.
class OpTimes {
 public:
  /// Largest number of iterations for which the times of an op are kept.
  static constexpr std::size_t kIterationsMax = 32;

  /// Adds the times of a recorded iteration.
  void Add(const Schedule& iteration);
  void Forget() { keys_.clear(); }

  /// Number of iterations of `key` for which an op's times are kept, at most kIterationsMax.
  std::size_t iterations(const std::string& key) const;

  /// Gives every op of `schedule` the least time that was added for it. An op without added times
  /// keeps its own.
  void SetLeast(Schedule* schedule) const;
  /// Gives every op the median in place of the least time.
  void SetMedian(Schedule* schedule) const;

 private:
  /// Place of an op: its name, and the number of ops of that name before it.
  using OpPlace = std::pair<std::string, int>;
  using Ops = absl::flat_hash_map<OpPlace, std::deque<double>>;

  template <typename Figure>
  void Set(const Figure& figure, Schedule* schedule) const;

  absl::flat_hash_map<std::string, Ops> keys_;
};

}  // namespace sluice::tools
