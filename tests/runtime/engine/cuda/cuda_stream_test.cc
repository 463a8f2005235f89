#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/runtime/engine/cuda/cuda_fixture.h"
#include "tests/support/status_matchers.h"

namespace sluice {
namespace {

using testing::CudaRuntimeFixture;
using ::testing::Each;
using testing::HasCode;
using ::testing::HasSubstr;
using testing::IsOk;

TEST(CudaStreamTest, ALeaseStaysUntilTheUsersWorkIsDone) {
  CudaRuntimeFixture gpu;
  gpu.runtime().Start();
  StreamRef stream = gpu->AdoptStream(gpu.user_stream()).value();
  const TensorId tensor = gpu.runtime().Make("t", kGpuPage);
  ASSERT_EQ(gpu.fake().LaunchGate(0, gpu.user_stream()), device::kCudaSuccess);
  ASSERT_THAT(gpu.Add(tensor, 9, stream), IsOk());
  Op op = gpu->BeginOp({.name = "read"});
  Ticket ticket = op.AcquireAll({{.tensor = tensor, .tier = kDram0}});
  const auto soon = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
  EXPECT_THAT(ticket.Wait(soon), HasCode(absl::StatusCode::kDeadlineExceeded));
  gpu.fake().Open(0);
  ASSERT_THAT(ticket.Wait(), IsOk());
  const auto leases = ticket.Take();
  ASSERT_THAT(leases, IsOk());
  EXPECT_THAT(leases->front().Contiguous(), Each(std::byte{9}));
}

TEST(CudaStreamTest, TheDefaultStreamsWork) {
  for (const device::CudaStream users :
       {device::kCudaLegacyStream, device::CudaPerThreadStream()}) {
    CudaRuntimeFixture gpu;
    gpu.runtime().Start();
    StreamRef stream = gpu->AdoptStream(users).value();
    const TensorId tensor = gpu.runtime().Make("t", kGpuPage);
    auto lease =
        gpu.runtime().Acquire({.tensor = tensor, .mode = AccessMode::kReadWrite, .tier = kHbm0});
    ASSERT_THAT(lease, IsOk());
    ASSERT_EQ(gpu.fake().LaunchAdd(lease->Contiguous(), 3, users), device::kCudaSuccess);
    ASSERT_THAT(stream.ReleaseAfter(*std::move(lease)), IsOk());
    EXPECT_THAT(gpu.Bytes(tensor).value(), Each(std::byte{3}));
  }
}

TEST(CudaStreamTest, ACapturedStreamIsRefusedAndTheLeaseStaysTheCallers) {
  CudaRuntimeFixture gpu;
  gpu.runtime().Start();
  StreamRef stream = gpu->AdoptStream(gpu.user_stream()).value();
  const TensorId tensor = gpu.runtime().Make("t", kGpuPage);
  auto lease =
      gpu.runtime().Acquire({.tensor = tensor, .mode = AccessMode::kReadWrite, .tier = kHbm0});
  ASSERT_THAT(lease, IsOk());
  Op op = gpu->BeginOp({.name = "captured"});
  ASSERT_EQ(gpu.fake().BeginCapture(gpu.user_stream(), /*global=*/true), device::kCudaSuccess);
  const absl::Status refused = stream.ReleaseAfter(std::move(*lease));
  EXPECT_THAT(refused, HasCode(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("captured into a graph"));
  EXPECT_TRUE(lease->valid());
  EXPECT_THAT(op.EndAfter(stream), HasCode(absl::StatusCode::kFailedPrecondition));
  ASSERT_EQ(gpu.fake().LaunchAdd(lease->Contiguous(), 1, gpu.user_stream()), device::kCudaSuccess);
  testing::CudaGraph graph = nullptr;
  ASSERT_EQ(gpu.fake().EndCapture(gpu.user_stream(), &graph), device::kCudaSuccess);
  ASSERT_EQ(gpu.fake().LaunchGraph(graph, gpu.user_stream()), device::kCudaSuccess);
  EXPECT_THAT(stream.ReleaseAfter(std::move(*lease)), IsOk());
  EXPECT_THAT(gpu.Bytes(tensor).value(), Each(std::byte{1}));
  ASSERT_EQ(gpu.fake().DestroyGraph(graph), device::kCudaSuccess);
}

TEST(CudaStreamTest, ForeignStreamsAreNeverSynchronised) {
  CudaRuntimeFixture gpu;
  gpu.runtime().Start();
  {
    StreamRef stream = gpu->AdoptStream(gpu.user_stream()).value();
    const TensorId tensor = gpu.runtime().Make("t", kGpuPage);
    ASSERT_THAT(gpu.Add(tensor, 1, stream), IsOk());
    stream.Synchronize();
  }
  gpu.runtime().Stop();
  EXPECT_EQ(gpu.fake().calls(testing::FakeEntry::kSynchronizeStream), 0u);
}

TEST(CudaStreamTest, TheEmulatedDeviceAdoptsNone) {
  testing::RuntimeFixture runtime;
  runtime.Start();
  EXPECT_THAT(runtime->AdoptStream(nullptr), HasCode(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace sluice
