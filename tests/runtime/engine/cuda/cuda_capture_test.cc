#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/engine/api/runtime_state.h"
#include "tests/runtime/engine/cuda/cuda_fixture.h"
#include "tests/support/status_matchers.h"

namespace sluice {
namespace {

using testing::CudaRuntimeFixture;
using ::testing::IsEmpty;
using testing::IsOk;

/// A Runtime whose user captures a graph. Each test runs with a global capture and a thread's own.
class CudaCaptureTest : public ::testing::TestWithParam<bool> {
 protected:
  void Begin() {
    ASSERT_EQ(gpu_.fake().BeginCapture(gpu_.user_stream(), GetParam()), device::kCudaSuccess);
  }
  /// Ends the capture, which must be whole, and the thread's mode the user's own.
  void End() {
    device::CudaCaptureMode mode = device::CudaCaptureMode::kGlobal;
    EXPECT_EQ(gpu_.fake().api().ExchangeCaptureMode(&mode), device::kCudaSuccess);
    EXPECT_EQ(mode, device::CudaCaptureMode::kGlobal) << "the user's mode comes back";
    testing::CudaGraph graph = nullptr;
    ASSERT_EQ(gpu_.fake().EndCapture(gpu_.user_stream(), &graph), device::kCudaSuccess);
    ASSERT_EQ(gpu_.fake().DestroyGraph(graph), device::kCudaSuccess);
  }

  CudaRuntimeFixture gpu_;
};

INSTANTIATE_TEST_SUITE_P(Modes, CudaCaptureTest, ::testing::Bool(), [](const auto& mode) {
  return mode.param ? "Global" : "OfItsThread";
});

TEST_P(CudaCaptureTest, APageThatIsMappedMeanwhileLeavesItWhole) {
  gpu_.runtime().Start();
  const TensorId tensor = gpu_.runtime().Make("t", 2 * kGpuPage);
  ASSERT_THAT(gpu_->Write(tensor, testing::Pattern(1, 2 * kGpuPage)), IsOk());
  ASSERT_THAT(gpu_.runtime().Acquire({.tensor = tensor, .range = {0, kGpuPage}, .tier = kHbm0}),
              IsOk());
  Begin();
  std::thread([&] {
    const auto lease =
        gpu_.runtime().Acquire({.tensor = tensor, .range = {kGpuPage, kGpuPage}, .tier = kHbm0});
    EXPECT_THAT(lease, IsOk());
  }).join();
  End();
}

TEST_P(CudaCaptureTest, AFirstLeaseOfTheCapturingThreadLeavesItWhole) {
  gpu_.runtime().Start();
  const TensorId tensor = gpu_.runtime().Make("t", kGpuPage);
  Begin();
  EXPECT_THAT(gpu_.runtime().Acquire({.tensor = tensor, .tier = kHbm0}), IsOk());
  EXPECT_THAT(gpu_->Free(tensor), IsOk());
  End();
}

TEST_P(CudaCaptureTest, BudgetsThatChangeMeanwhileLeaveItWhole) {
  gpu_.runtime().options.dram_bytes = Bytes(128 * kGpuPage);
  gpu_.runtime().Start();
  Begin();
  for (const std::uint64_t pages : {16, 128}) {
    EXPECT_THAT(gpu_->SetBudget(kDram0, Bytes(pages * kGpuPage)), IsOk());
  }
  for (const std::uint64_t pages : {2, 8}) {
    EXPECT_THAT(gpu_->SetBudget(kHbm0, Bytes(pages * kGpuPage)), IsOk());
  }
  std::thread([&] { EXPECT_THAT(gpu_->SetBudget(kDram0, Bytes(16 * kGpuPage)), IsOk()); }).join();
  EXPECT_THAT(gpu_->GetStats().fallbacks, IsEmpty());
  End();
}

TEST_P(CudaCaptureTest, ARuntimeThatComesAndGoesMeanwhileLeavesItWhole) {
  Begin();
  gpu_.runtime().Start();
  const TensorId tensor = gpu_.runtime().Make("t", kGpuPage);
  EXPECT_THAT(gpu_.runtime().Acquire({.tensor = tensor, .tier = kHbm0}), IsOk());
  EXPECT_THAT(gpu_->CreateStream(), IsOk());
  gpu_.runtime().Stop();
  End();
}

}  // namespace
}  // namespace sluice
