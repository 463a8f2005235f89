// The counter loop at every fourth attempt in virtual time and at every hundredth on real media,
// which takes half of the slow part's minutes. The attempts differ from case to case.
#include <cstdint>
#include <functional>
#include <string>

#include "gtest/gtest.h"
#include "tests/faults/cases/counter_loop.h"
#include "tests/faults/cases/counter_loop_suites.h"

namespace sluice::faults {
namespace {

/// Attempts in steps of `stride`. Registrations of memory are few, so every one is struck. Attempts
/// on reproducible pages are few, too, so their stride is a fourth.
LoopStride Every(std::uint64_t stride, const FaultCase& fault, std::uint64_t offset = 0) {
  if (CountsRegistrations(fault)) return {};
  if (fault.options.target == Target::kReproducible) stride /= 4;
  const std::uint64_t first = std::hash<std::string>()(fault.name) + offset;
  return {.first = first % stride, .stride = stride};
}

class SlowCounterLoop : public ::testing::TestWithParam<FaultCase> {};

TEST_P(SlowCounterLoop, AFaultAtManyAttemptsIsHandled) {
  RunCounterLoop(GetParam(), Medium::kVirtual, Every(4, GetParam()));
}

SLUICE_INSTANTIATE_FAULTS(SlowCounterLoop);

class SlowCounterLoopOnMedia : public ::testing::TestWithParam<FaultCase> {};

TEST_P(SlowCounterLoopOnMedia, OnIoUring) {
  RunCounterLoop(GetParam(), Medium::kUring, Every(100, GetParam()));
}

TEST_P(SlowCounterLoopOnMedia, OnThreads) {
  RunCounterLoop(GetParam(), Medium::kThreads, Every(100, GetParam(), 50));
}

INSTANTIATE_TEST_SUITE_P(Media,
                         SlowCounterLoopOnMedia,
                         ::testing::ValuesIn(CasesOnMedia()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace sluice::faults
