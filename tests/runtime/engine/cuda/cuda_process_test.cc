#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/runtime/engine/cuda/cuda_fixture.h"
#include "tests/support/child_process.h"
#include "tests/support/status_matchers.h"

namespace sluice {
namespace {

using testing::CudaRuntimeFixture;
using testing::IsOk;

TEST(CudaProcessTest, AChildMakesNoCallOfTheDriver) {
  CudaRuntimeFixture gpu;
  gpu.runtime().Start();
  const TensorId tensor = gpu.runtime().Make("t", kGpuPage);
  const std::vector<std::byte> bytes = testing::Pattern(1, kGpuPage);
  ASSERT_THAT(gpu->Write(tensor, bytes), IsOk());
  auto lease = gpu.runtime().Acquire({.tensor = tensor, .tier = kHbm0});
  ASSERT_THAT(lease, IsOk());
  StreamRef users = gpu->AdoptStream(gpu.user_stream()).value();
  StreamRef own = gpu->CreateStream().value();
  const std::string calls = testing::RunInChild([&] {
    const std::uint64_t before = gpu.fake().calls();
    own.Synchronize();
    own = StreamRef();
    users.ReleaseAfter(*std::move(lease)).IgnoreError();
    users = StreamRef();
    gpu->Write(tensor, bytes).IgnoreError();
    gpu->SetBudget(kHbm0, Bytes(2 * kGpuPage)).IgnoreError();
    gpu->Free(tensor).IgnoreError();
    gpu.runtime().Stop();
    return std::to_string(gpu.fake().calls() - before);
  });
  EXPECT_EQ(calls, "0");
}

TEST(CudaProcessTest, ATeardownAfterTheDriverIsSilent) {
  for (const bool keeps : {true, false}) {
    CudaRuntimeFixture gpu;
    gpu.runtime().options.log = gpu.runtime().log.sink();
    gpu.runtime().options.memory.keep_mappings = keeps;
    gpu.runtime().Start();
    const TensorId tensor = gpu.runtime().Make("t", 2 * kGpuPage);
    const StreamRef own = gpu->CreateStream().value();
    ASSERT_THAT(
        gpu.runtime().Acquire({.tensor = tensor, .mode = AccessMode::kReadWrite, .tier = kHbm0}),
        IsOk());
    const std::string before = gpu.runtime().log.All();
    gpu.fake().Inject({.code = device::kCudaDeinitialized, .sticky = true});
    gpu.runtime().Stop();
    EXPECT_TRUE(gpu.fake().injected().has_value());
    EXPECT_EQ(gpu.runtime().log.All(), before) << keeps;
  }
}

TEST(CudaProcessTest, TheSecondGpuIsTakenAndTheUsersStaysCurrent) {
  testing::FakeCudaOptions two = CudaRuntimeFixture::SmallPages();
  two.devices = 2;
  CudaRuntimeFixture gpu(two);
  gpu.runtime().options.cuda.gpu = "1";
  gpu.runtime().Start();
  for (const char* name : {"a", "b", "c"}) {
    const TensorId tensor = gpu.runtime().Make(name, 4 * kGpuPage);
    const std::vector<std::byte> bytes = testing::Pattern(1, 4 * kGpuPage);
    ASSERT_THAT(gpu->Write(tensor, bytes), IsOk());
    ASSERT_THAT(
        gpu.runtime().Acquire({.tensor = tensor, .mode = AccessMode::kReadWrite, .tier = kHbm0}),
        IsOk());
    EXPECT_EQ(gpu.Bytes(tensor).value(), bytes);
  }
  EXPECT_GT(gpu.fake().ended_work(1), 0u);
  EXPECT_EQ(gpu.fake().ended_work(0), 0u);
  std::uint64_t free = 0;
  std::uint64_t all = 0;
  ASSERT_EQ(gpu.fake().api().FreeMemory(&free, &all), device::kCudaSuccess);
  EXPECT_EQ(free, all) << "of the first GPU, which is current";
}

}  // namespace
}  // namespace sluice
