#include <gtest/gtest.h>

#include <random>

#include "runtime/optim/kernels/kernel.h"
#include "tests/runtime/optim/kernels/reference_update.h"
#include "tests/runtime/optim/tensor_run.h"

namespace sluice::optim {
namespace {

constexpr RoundingKey kKey{.seed = 5, .tensor = 7, .step = 3};

Kernel KernelOf(const KernelSpec& spec, SimdTarget target) {
  absl::StatusOr<Kernel> kernel = FindKernel(spec, target);
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  return *kernel;
}

/// Cuts a tensor into runs of random lengths, at blocks where the states need it.
std::vector<std::size_t> RandomCuts(const KernelSpec& spec,
                                    std::size_t count,
                                    std::mt19937_64& random) {
  const std::size_t unit = spec.state == StateType::k8Bit ? kStateBlock : 1;
  std::vector<std::size_t> cuts = {0};
  while (cuts.back() < count) {
    const std::size_t length = unit * (1 + random() % (unit == 1 ? 90 : 2));
    cuts.push_back(std::min(cuts.back() + length, count));
  }
  return cuts;
}

class KernelBitsTest : public ::testing::TestWithParam<KernelSpec> {};

TEST_P(KernelBitsTest, EveryTargetGivesTheBitsOfTheReference) {
  const KernelSpec spec = GetParam();
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const std::size_t count = 1 + random() % 1500;
    const KernelScalars scalars = UsualScalars(spec.optimizer);
    const TensorRun start = TensorRun::Random(spec, count, seed);
    TensorRun expected = start;
    ReferenceUpdate(spec, expected.Args(scalars, kKey, 0, count));
    for (const SimdTarget target : SupportedSimdTargets()) {
      TensorRun run = start;
      EXPECT_TRUE(KernelOf(spec, target)(run.Args(scalars, kKey, 0, count)));
      ASSERT_EQ(run.Difference(expected), "") << ToString(target) << ", " << count << " elements";
    }
  }
}

TEST_P(KernelBitsTest, CutsChangeNothing) {
  const KernelSpec spec = GetParam();
  for (std::uint64_t seed = 11; seed <= 13; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const std::size_t count = 1 + random() % 1500;
    const KernelScalars scalars = UsualScalars(spec.optimizer);
    const TensorRun start = TensorRun::Random(spec, count, seed);
    for (const SimdTarget target : SupportedSimdTargets()) {
      const Kernel kernel = KernelOf(spec, target);
      TensorRun whole = start;
      kernel(whole.Args(scalars, kKey, 0, count));
      TensorRun run = start;
      const std::vector<std::size_t> cuts = RandomCuts(spec, count, random);
      for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
        kernel(run.Args(scalars, kKey, cuts[c], cuts[c + 1] - cuts[c]));
      }
      ASSERT_EQ(run.Difference(whole), "") << ToString(target) << ", " << count << " elements";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All,
                         KernelBitsTest,
                         ::testing::ValuesIn(AllSpecs()),
                         [](const auto& param) {
                           std::string name = NameOf(param.param);
                           for (char& c : name) c = c == '/' ? '_' : c;
                           return name;
                         });

/// An index whose lower half overflows within the run.
TEST(KernelIndexTest, RunsAcross2To32ElementsHaveTheirOwnRandomWords) {
  const KernelSpec spec{.parameter = ParameterType::kBf16, .state = StateType::kBf16};
  constexpr std::uint64_t kFirst = (std::uint64_t{3} << 32) - 100;
  const TensorRun start = TensorRun::Random(spec, 200, 17);
  TensorRun expected = start;
  KernelArgs args = expected.Args(UsualScalars(spec.optimizer), kKey, 0, 200);
  args.element = kFirst;
  ReferenceUpdate(spec, args);
  for (const SimdTarget target : SupportedSimdTargets()) {
    TensorRun run = start;
    args = run.Args(UsualScalars(spec.optimizer), kKey, 0, 200);
    args.element = kFirst;
    KernelOf(spec, target)(args);
    EXPECT_EQ(run.Difference(expected), "") << ToString(target);
  }
}

}  // namespace
}  // namespace sluice::optim
