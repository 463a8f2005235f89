#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/runtime/core/policies/trace.h"

namespace sluice::core {

/// A cache of pages as its paper describes it, in plain vectors. Shares nothing with the policies
/// under test.
class NaiveCache {
 public:
  virtual ~NaiveCache() = default;

  struct Outcome {
    bool hit = false;
    std::optional<PageIndex> evicted;
  };
  virtual Outcome Access(PageIndex page) = 0;
};

/// REQUIRES: `trace` outlives the cache, and is what it will be asked for ("min" knows the future).
std::unique_ptr<NaiveCache> MakeNaiveCache(const std::string& policy,
                                           std::size_t frames,
                                           const Trace& trace);

/// The policies that MakeNaiveCache knows.
std::vector<std::string> NaivePolicies();

}  // namespace sluice::core
