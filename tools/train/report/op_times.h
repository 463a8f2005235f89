#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "sluice/schedule.h"

namespace sluice::tools {

/// How long the ops of each key took in its iterations that ended last. An op of an iteration is
/// the op of another one whose name and place among the ops of that name are the same.
/// Threads: externally synchronised.
class OpTimes {
 public:
  /// Of so many iterations at most the times of an op are kept.
  static constexpr std::size_t kIterationsMax = 32;

  /// What a recorded iteration took.
  void Add(const Schedule& iteration);
  void Forget() { keys_.clear(); }

  /// Of how many iterations of `key` an op's times are kept, at most kIterationsMax.
  std::size_t iterations(const std::string& key) const;

  /// Gives every op of `schedule` the least that was added of it; one of which nothing was, keeps
  /// what it has.
  void SetLeast(Schedule* schedule) const;
  /// As SetLeast, the median.
  void SetMedian(Schedule* schedule) const;

 private:
  /// The name and how many of that name came before.
  using OpPlace = std::pair<std::string, int>;
  using Ops = absl::flat_hash_map<OpPlace, std::deque<double>>;

  template <typename Figure>
  void Set(const Figure& figure, Schedule* schedule) const;

  absl::flat_hash_map<std::string, Ops> keys_;
};

}  // namespace sluice::tools
