// The counter loop in virtual time, at some attempts: see counter_loop.h. Every attempt, and real
// media, are those of long_counter_loop_test.cc.
#include "tests/faults/cases/counter_loop.h"

#include <algorithm>
#include <functional>
#include <string>

#include "gtest/gtest.h"
#include "tests/faults/cases/counter_loop_suites.h"
#include "tests/support/sanitizers.h"

namespace sluice::faults {
namespace {

class CounterLoop : public ::testing::TestWithParam<FaultCase> {};

TEST_P(CounterLoop, AFaultAtSomeAttemptsIsHandled) {
  constexpr std::uint64_t kStride = 37;
  constexpr std::uint64_t kStrideMax = 293;
  // Attempts on reproducible pages are fewer.
  const bool few = GetParam().options.target == Target::kReproducible;
  if (CountsRegistrations(GetParam())) return RunCounterLoop(GetParam(), Medium::kVirtual, {});
  const std::uint64_t stride = std::min(kStrideMax, kStride * testing::kSlowdown) / (few ? 3 : 1);
  // Other attempts in each case.
  const std::uint64_t first = std::hash<std::string>()(GetParam().name) % stride;
  RunCounterLoop(GetParam(), Medium::kVirtual, {.first = first, .stride = stride});
}

SLUICE_INSTANTIATE_FAULTS(CounterLoop);

}  // namespace
}  // namespace sluice::faults
