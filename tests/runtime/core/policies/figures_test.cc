#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/core/core.h"
#include "tests/runtime/core/policies/policy_cache.h"
#include "tests/runtime/core/policies/trace.h"
#include "tests/support/sanitizers.h"

/// The figures of docs/results/policies.md; this test prints its rows, policies.jsonl.

namespace sluice::core {
namespace {

struct Moved {
  double in = 0;
  double out = 0;
  double both() const { return in + out; }
};

Moved MovedBy(const std::string& policy, std::size_t frames, const Trace& trace) {
  PolicyCache cache(policy, frames, trace);
  while (!cache.done()) cache.Next();
  cache.Flush();
  return {static_cast<double>(cache.pages_in()), static_cast<double>(cache.pages_out())};
}

/// Sums over random traces of each kind, half of the references writes, a tenth overwrites.
TEST(NextUseCostTest, MovesLessThanMinWhereMuchIsWritten) {
  SLUICE_SKIP_FIGURES_UNDER_SANITIZERS();
  std::map<std::string, Moved> min, cost;
  Moved min_sum, cost_sum;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    for (auto& [name, trace] : AllTraces({.length = 2000, .pages = 60, .seed = seed})) {
      AddWrites(seed, 50, 10, &trace);
      for (const std::size_t frames : {6, 20, 40}) {
        const auto add = [&](const Moved& moved, Moved* kind, Moved* all) {
          for (Moved* sum : {kind, all}) {
            sum->in += moved.in;
            sum->out += moved.out;
          }
        };
        add(MovedBy("min", frames, trace), &min[name], &min_sum);
        add(MovedBy("next-use-cost", frames, trace), &cost[name], &cost_sum);
      }
    }
  }
  min["all"] = min_sum;
  cost["all"] = cost_sum;
  for (const auto& [name, moved] : min) {
    std::printf(
        "{\"case\":\"moved/%s\",\"min_in\":%.0f,\"min_out\":%.0f,\"cost_in\":%.0f,"
        "\"cost_out\":%.0f,\"ratio\":%.4f}\n",
        name.c_str(),
        moved.in,
        moved.out,
        cost[name].in,
        cost[name].out,
        cost[name].both() / moved.both());
    EXPECT_LE(cost[name].both(), moved.both()) << name;
  }
}

TEST(HitRatioTest, NoPolicyHitsMoreOftenThanMin) {
  SLUICE_SKIP_FIGURES_UNDER_SANITIZERS();
  const TraceOptions zipf{.length = 100'000, .pages = 5000, .seed = 1};
  const TraceOptions training{.length = 50'000, .pages = 1000, .seed = 1};
  const std::vector<NamedTrace> traces = {{"scan", ScanTrace(zipf)},
                                          {"loop", LoopTrace(training)},
                                          {"up and down", UpAndDownTrace(training)}};
  std::map<std::string, std::map<std::string, double>> ratios;
  for (const std::string& policy : PolicyNames()) {
    for (const auto& [name, trace] : traces) {
      PolicyCache cache(policy, 500, trace);
      while (!cache.done()) cache.Next();
      ratios[name][policy] = static_cast<double>(cache.hits()) / static_cast<double>(trace.size());
      std::printf("{\"case\":\"hits/%s/%s\",\"value\":%.4f}\n",
                  name.c_str(),
                  policy.c_str(),
                  ratios[name][policy]);
    }
  }
  for (const auto& [name, of] : ratios) {
    for (const auto& [policy, ratio] : of) EXPECT_LE(ratio, of.at("min")) << name << " " << policy;
  }
  EXPECT_GT(ratios["scan"]["s3fifo"], ratios["scan"]["fifo"]);
  EXPECT_GT(ratios["scan"]["2q"], ratios["scan"]["lru"]);
  EXPECT_EQ(ratios["loop"]["lru"], 0);
  EXPECT_GT(ratios["loop"]["min"], 0.45);
}

}  // namespace
}  // namespace sluice::core
