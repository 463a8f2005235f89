#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "runtime/core/core.h"
#include "tests/runtime/core/checked_policy.h"
#include "tests/runtime/core/policies/trace.h"

namespace sluice::core {

/// A tier of `frames` frames under a policy, which hears what the core would tell it: one reference
/// after the other, each a lease.
class PolicyCache {
 public:
  PolicyCache(const std::string& policy, std::size_t frames, const Trace& trace);
  PolicyCache(std::shared_ptr<PagingPolicy> policy, std::size_t frames, const Trace& trace);

  struct Step {
    bool hit = false;
    std::optional<PageIndex> evicted;
  };
  /// Makes the next reference of the trace.
  Step Next();
  bool done() const { return now_ == trace_.size(); }

  /// Makes Next ask the policy also for victims that are not evicted.
  void AskInVain(std::uint64_t seed) { idle_questions_ = std::mt19937_64(seed); }
  /// Writes all dirty pages, as at the end of a program.
  void Flush();

  std::uint64_t hits() const { return hits_; }
  std::uint64_t pages_in() const { return pages_in_; }
  std::uint64_t pages_out() const { return pages_out_; }

 private:
  struct Resident {
    bool dirty = false;
    std::size_t last = 0;  ///< the last reference to it
  };

  PageFacts FactsOf(PageIndex page) const;
  PageIndex Evict(PageIndex incoming);
  void AskForNothing();

  std::unique_ptr<CheckedPolicy> policy_;
  bool online_;
  std::size_t frames_;
  const Trace& trace_;
  std::vector<Position> next_use_;
  std::map<PageIndex, Resident> resident_;
  std::map<PageIndex, bool> below_;  ///< pages with content, once they have left
  std::size_t now_ = 0;
  std::uint64_t hits_ = 0;
  std::uint64_t pages_in_ = 0;
  std::uint64_t pages_out_ = 0;
  std::optional<std::mt19937_64> idle_questions_;
};

}  // namespace sluice::core
