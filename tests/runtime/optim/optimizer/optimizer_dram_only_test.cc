// ZeRO-Offload without a disk: dram is the last tier, or holds what nvme cannot.
#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "sluice/optimizer.h"
#include "tests/runtime/engine/runtime_fixture.h"
#include "tests/runtime/optim/paged_model.h"
#include "tests/support/status_matchers.h"

namespace sluice::optim {
namespace {

using sluice::testing::IsOk;
using sluice::testing::IsStatus;
using sluice::testing::RuntimeFixture;

/// Every tensor's bytes after some steps of AdamW.
std::vector<std::vector<std::byte>> Train(RuntimeFixture& runtime) {
  runtime.options.page_bytes = 64_KiB;
  runtime.options.hbm_bytes = 1_MiB;
  runtime.options.dram_bytes = 32_MiB;
  runtime.Start();
  PagedModel model(runtime, {.groups = {{1, 255, 500000}, {200000}, {300, 102500}}});
  for (std::uint64_t step = 1; step <= 3; ++step) {
    model.SetGradients(100 + step);
    EXPECT_THAT(model.Step(), IsOk());
    model.ReferenceStep(static_cast<std::int64_t>(step));
  }
  EXPECT_EQ(model.Paged(), model.Reference());
  return model.Paged();
}

TEST(OptimizerDramOnlyTest, StepsWithoutNvmeGiveTheBitsOfStepsWithIt) {
  RuntimeFixture with;
  with.options.nvme_bytes = 64_MiB;
  const auto paged = Train(with);
  for (const Bytes nvme : {0_MiB, 3_MiB}) {
    RuntimeFixture without;
    without.options.nvme_bytes = nvme;
    if (nvme == Bytes()) without.options.io.directory = "/nonexistent/spill";
    EXPECT_EQ(Train(without), paged) << ToString(nvme) << " of nvme";
  }
}

TEST(OptimizerDramOnlyTest, TensorsAndStatesThatMayNotLeaveDram) {
  RuntimeFixture runtime;
  runtime.options.page_bytes = 64_KiB;
  runtime.options.hbm_bytes = 1_MiB;
  runtime.options.dram_bytes = 32_MiB;
  runtime.options.nvme_bytes = Bytes();
  runtime.Start();
  const TensorSpec spec{.name = "w", .shape = {1 << 20}, .lowest = TierKind::kDram};
  const auto tensor = runtime->CreateTensor(spec);
  ASSERT_THAT(tensor, IsOk());
  auto optimizer = OffloadedOptimizer::Create(*runtime, {.lowest = TierKind::kDram});
  ASSERT_THAT(optimizer, IsOk());
  const auto group = (*optimizer)->AddGroup({.name = "all", .parameters = {*tensor}});
  ASSERT_THAT(group, IsOk());
  const std::vector<float> gradient(1 << 20, 0.01F);
  ASSERT_THAT((*optimizer)
                  ->BindGradient(
                      *tensor, {.type = DType::kF32, .bytes = std::as_bytes(std::span(gradient))}),
              IsOk());
  ASSERT_THAT((*optimizer)->GradientReady(*group), IsOk());
  auto step = (*optimizer)->Step({});
  ASSERT_THAT(step, IsOk());
  ASSERT_THAT(step->Wait(), IsOk());
  EXPECT_EQ(runtime.Read(*tensor, kHbm0), runtime.Read(*tensor, kDram0));
}

}  // namespace
}  // namespace sluice::optim
