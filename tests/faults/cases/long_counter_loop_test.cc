// The counter loop whole: at every attempt in virtual time, at every 25th on real media.
#include "gtest/gtest.h"
#include "tests/faults/cases/counter_loop.h"
#include "tests/faults/cases/counter_loop_suites.h"

namespace sluice::faults {
namespace {

/// Of which attempts of a real medium.
LoopStride Stride(const FaultCase& fault, std::uint64_t first) {
  if (CountsRegistrations(fault)) return {};
  return {.first = first, .stride = 25};
}

class SlowCounterLoop : public ::testing::TestWithParam<FaultCase> {};

TEST_P(SlowCounterLoop, AtEveryAttempt) { RunCounterLoop(GetParam(), Medium::kVirtual, {}); }

SLUICE_INSTANTIATE_FAULTS(SlowCounterLoop);

class SlowCounterLoopOnMedia : public ::testing::TestWithParam<FaultCase> {};

TEST_P(SlowCounterLoopOnMedia, OnIoUring) {
  RunCounterLoop(GetParam(), Medium::kUring, Stride(GetParam(), 0));
}

TEST_P(SlowCounterLoopOnMedia, OnThreads) {
  RunCounterLoop(GetParam(), Medium::kThreads, Stride(GetParam(), 12));
}

INSTANTIATE_TEST_SUITE_P(Media,
                         SlowCounterLoopOnMedia,
                         ::testing::ValuesIn(CasesOnMedia()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace sluice::faults
