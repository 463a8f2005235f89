// The counter loop whole: at every attempt in virtual time, at every 25th on real media.
#include "gtest/gtest.h"
#include "tests/faults/counter_loop.h"
#include "tests/faults/counter_loop_suites.h"

namespace sluice::faults {
namespace {

constexpr std::uint64_t kStrideOnMedia = 25;

class CounterLoop : public ::testing::TestWithParam<FaultCase> {};

TEST_P(CounterLoop, AtEveryAttempt) { RunCounterLoop(GetParam(), Medium::kVirtual, {}); }

SLUICE_INSTANTIATE_FAULTS(CounterLoop);

class CounterLoopOnMedia : public ::testing::TestWithParam<FaultCase> {};

TEST_P(CounterLoopOnMedia, OnIoUring) {
  RunCounterLoop(GetParam(), Medium::kUring, {.stride = kStrideOnMedia});
}

TEST_P(CounterLoopOnMedia, OnThreads) {
  RunCounterLoop(GetParam(), Medium::kThreads, {.first = 12, .stride = kStrideOnMedia});
}

INSTANTIATE_TEST_SUITE_P(Media,
                         CounterLoopOnMedia,
                         ::testing::ValuesIn(CasesOnMedia()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace sluice::faults
