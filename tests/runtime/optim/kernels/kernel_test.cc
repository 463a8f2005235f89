#include "runtime/optim/kernels/kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/optim/tensor_run.h"

namespace sluice::optim {
namespace {

using ::testing::HasSubstr;

TEST(FindKernelTest, EveryValidCombinationHasAKernelOnEveryTarget) {
  EXPECT_EQ(AllSpecs().size(), 6U * 3 * 3 * 4);
  for (const KernelSpec& spec : AllSpecs()) {
    for (const SimdTarget target : SupportedSimdTargets()) {
      const absl::StatusOr<Kernel> kernel = FindKernel(spec, target);
      ASSERT_TRUE(kernel.ok()) << kernel.status();
      EXPECT_EQ(kernel->target(), target);
    }
  }
}

TEST(FindKernelTest, BestIsTheWidestOfTheProcessor) {
  EXPECT_EQ(SupportedSimdTargets().front(), SimdTarget::kScalar);
  EXPECT_EQ(SupportedSimdTargets().back(), BestSimdTarget());
  EXPECT_EQ(FindKernel({})->target(), BestSimdTarget());
}

TEST(FindKernelTest, ACopyOfBf16ParametersIsRefused) {
  const auto kernel = FindKernel({.parameter = ParameterType::kBf16, .copy = CopyType::kFp16});
  EXPECT_EQ(kernel.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(kernel.status().message()), HasSubstr("copy of bf16 parameters"));
}

TEST(FindKernelTest, ATargetThatTheProcessorLacksIsRefused) {
  if (BestSimdTarget() == SimdTarget::kAvx512) GTEST_SKIP() << "this processor has every target";
  const auto kernel = FindKernel({}, SimdTarget::kAvx512);
  EXPECT_EQ(kernel.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(kernel.status().message()), HasSubstr("avx512"));
}

TEST(BytesPerElementTest, CountsWhatAnUpdateMoves) {
  EXPECT_EQ(BytesPerElement({}).Moved(), 28);
  EXPECT_EQ(BytesPerElement({}).Kept(), 12);
  EXPECT_EQ(BytesPerElement({.state = StateType::kBf16, .copy = CopyType::kBf16}).Moved(), 22);
  EXPECT_EQ(BytesPerElement({.optimizer = OptimizerKind::kLion}).Moved(), 20);
  const KernelSpec smallest{.parameter = ParameterType::kBf16,
                            .state = StateType::k8Bit,
                            .gradient = GradientType::kFp16};
  EXPECT_EQ(BytesPerElement(smallest).Kept(), 2 + 2 * (1 + 4.0 / 256));
  EXPECT_EQ(BytesPerElement(smallest).Moved(), 4 + 2 + 4 * (1 + 4.0 / 256));
}

/// BytesPerElement gives the sizes of the tensors that an update reads and writes.
TEST(BytesPerElementTest, AgreesWithTheTensors) {
  for (const KernelSpec& spec : AllSpecs()) {
    constexpr std::size_t kCount = 4 * kStateBlock;
    const TensorRun run(spec, kCount);
    const ElementBytes bytes = BytesPerElement(spec);
    EXPECT_EQ(run.parameters.size(), kCount * bytes.parameter) << NameOf(spec);
    EXPECT_EQ(run.gradients.size(), kCount * bytes.gradient) << NameOf(spec);
    EXPECT_EQ(run.copy.size(), kCount * bytes.copy) << NameOf(spec);
    const std::size_t scales = 4 * (run.scales[0].size() + run.scales[1].size());
    EXPECT_EQ(run.states[0].size() + run.states[1].size() + scales, kCount * bytes.states);
  }
}

TEST(KernelDeathTest, MisuseStopsTheProgram) {
  const KernelSpec spec{.state = StateType::k8Bit, .copy = CopyType::kBf16};
  TensorRun run = TensorRun::Random(spec, 512, 1);
  const Kernel kernel = *FindKernel(spec);
  KernelArgs args = run.Args({}, {}, 256, 256);
  args.element = 255;
  EXPECT_DEATH(kernel(args), "cut at their blocks");
  args = run.Args({}, {}, 0, 512);
  args.copy = nullptr;
  EXPECT_DEATH(kernel(args), "copy has a place");
  args = run.Args({}, {}, 0, 512);
  args.states[1].scales = nullptr;
  EXPECT_DEATH(kernel(args), "have scales");
  args = run.Args({}, {}, 0, 512);
  args.states[1].values = nullptr;
  EXPECT_DEATH(kernel(args), "optimizer's states");
}

TEST(KernelTest, NoElementsAreNoUpdate) { EXPECT_TRUE((*FindKernel({}))({})); }

}  // namespace
}  // namespace sluice::optim
