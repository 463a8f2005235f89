// The truths on the fake driver.

#include "tests/runtime/device/cuda/driver_truths.h"
#include "tests/support/cuda/fake_cuda.h"

namespace sluice::testing {
namespace {

using std::chrono_literals::operator""us;

DriverUnderTest Fake(std::string name, std::uint64_t granularity, std::chrono::microseconds delay) {
  FakeCudaOptions options;
  options.facts.granularity = granularity;
  options.facts.memory_bytes = 64 * granularity;
  options.delay_max = delay;
  return {.name = std::move(name),
          .make = [options] { return std::make_unique<FakeCuda>(options); }};
}

INSTANTIATE_TEST_SUITE_P(Fake,
                         CudaTruthTest,
                         ::testing::Values(Fake("Late", 64 << 10, 100us),
                                           Fake("Prompt", 128 << 10, 0us)),
                         [](const auto& instance) { return instance.param.name; });

INSTANTIATE_TEST_SUITE_P(Fake,
                         CudaFatalTruthTest,
                         ::testing::Values(Fake("Late", 64 << 10, 100us)),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace sluice::testing
