#include <chrono>
#include <future>
#include <string>
#include <thread>
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

TEST(CudaStreamTest, APageThatComesLeavesMappedWhatWorkUses) {
  CudaRuntimeFixture gpu;
  gpu.runtime().Start();
  StreamRef stream = gpu->AdoptStream(gpu.user_stream()).value();
  const TensorId tensor = gpu.runtime().Make("t", 2 * kGpuPage);
  const auto page = [&](std::uint64_t index) {
    return gpu.runtime().Acquire({.tensor = tensor,
                                  .range = {index * kGpuPage, kGpuPage},
                                  .mode = AccessMode::kReadWrite,
                                  .tier = kHbm0});
  };
  auto first = page(0);
  ASSERT_THAT(first, IsOk());
  ASSERT_EQ(gpu.fake().LaunchGate(0, gpu.user_stream()), device::kCudaSuccess);
  ASSERT_EQ(gpu.fake().LaunchAdd(first->Contiguous(), 4, gpu.user_stream()), device::kCudaSuccess);
  ASSERT_THAT(stream.ReleaseAfter(*std::move(first)), IsOk());
  EXPECT_THAT(page(1), IsOk());
  gpu.fake().Open(0);
  const auto bytes = gpu.Bytes(tensor);
  ASSERT_THAT(bytes, IsOk());
  EXPECT_EQ(bytes->front(), std::byte{4});
}

/// A tensor in dram that is wanted in hbm, with the copies there held up.
class CudaWaitOnTest : public ::testing::Test {
 protected:
  void SetUp() override {
    gpu_.runtime().Start();
    stream_ = gpu_->AdoptStream(gpu_.user_stream()).value();
    bytes_ = testing::Pattern(1, kBytes);
    tensor_ = gpu_.runtime().Make("t", kBytes);
    ASSERT_THAT(gpu_->Write(tensor_, bytes_), IsOk());
    gpu_.fake().HoldCopies();
  }
  void TearDown() override { gpu_.fake().ReleaseCopies(); }

  /// A ticket of the tensor in hbm that was waited on: its leases.
  std::vector<Lease> WaitOn(Op& op, AccessMode mode) {
    Ticket ticket = op.AcquireAll({{.tensor = tensor_, .mode = mode, .tier = kHbm0}});
    EXPECT_THAT(stream_.WaitOn(ticket), IsOk());
    return ticket.Take().value();
  }

  static constexpr std::uint64_t kBytes = 3 * kGpuPage - 100;
  CudaRuntimeFixture gpu_;
  StreamRef stream_;
  TensorId tensor_;
  std::vector<std::byte> bytes_;
};

TEST_F(CudaWaitOnTest, ReturnsWhileThePagesAreOnTheirWayAndTheKernelComesAfterThem) {
  Op op = gpu_->BeginOp({.name = "add"});
  std::vector<Lease> leases = WaitOn(op, AccessMode::kReadWrite);
  const std::uint64_t before = gpu_.fake().ended_work();
  ASSERT_EQ(gpu_.fake().LaunchAdd(leases.front().Contiguous(), 7, gpu_.user_stream()),
            device::kCudaSuccess);
  ASSERT_THAT(stream_.ReleaseAfter(std::move(leases.front())), IsOk());
  ASSERT_THAT(op.EndAfter(stream_), IsOk());
  EXPECT_EQ(gpu_.fake().ended_work(), before) << "no copy has ended, nor has the kernel";
  gpu_.fake().ReleaseCopies();
  for (std::byte& byte : bytes_) byte = static_cast<std::byte>(std::to_integer<int>(byte) + 7);
  EXPECT_EQ(gpu_.Bytes(tensor_).value(), bytes_);
}

TEST_F(CudaWaitOnTest, AnotherTicketOfThePagesWaitsForThem) {
  Op op = gpu_->BeginOp({.name = "early"});
  const std::vector<Lease> leases = WaitOn(op, AccessMode::kRead);
  Op other = gpu_->BeginOp({.name = "late", .lane = "other"});
  Ticket ticket = other.AcquireAll({{.tensor = tensor_, .tier = kHbm0}});
  const auto soon = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
  EXPECT_THAT(ticket.Wait(soon), HasCode(absl::StatusCode::kDeadlineExceeded));
  gpu_.fake().ReleaseCopies();
  EXPECT_THAT(ticket.Wait(), IsOk());
}

TEST_F(CudaWaitOnTest, LeasesThatEndBeforeTheirPagesArriveLeaveTheBytesRight) {
  {
    Op op = gpu_->BeginOp({.name = "dropped"});
    WaitOn(op, AccessMode::kReadWrite);
  }
  gpu_.fake().ReleaseCopies();
  EXPECT_EQ(gpu_.Bytes(tensor_).value(), bytes_);
}

TEST_F(CudaWaitOnTest, ACapturedStreamWaitsForTheCopiesThemselves) {
  gpu_.fake().ReleaseCopies();
  ASSERT_EQ(gpu_.fake().BeginCapture(gpu_.user_stream(), /*global=*/true), device::kCudaSuccess);
  Op op = gpu_->BeginOp({.name = "captured"});
  const std::vector<Lease> leases = WaitOn(op, AccessMode::kReadWrite);
  ASSERT_EQ(gpu_.fake().LaunchAdd(leases.front().Contiguous(), 1, gpu_.user_stream()),
            device::kCudaSuccess);
  testing::CudaGraph graph = nullptr;
  ASSERT_EQ(gpu_.fake().EndCapture(gpu_.user_stream(), &graph), device::kCudaSuccess);
  ASSERT_EQ(gpu_.fake().DestroyGraph(graph), device::kCudaSuccess);
}

TEST_F(CudaWaitOnTest, AStreamThatTheDriverPutsBehindNoCopyGetsNoLease) {
  gpu_.fake().Inject({.entry = testing::FakeEntry::kWaitEvent, .code = device::kCudaInvalidValue});
  Op op = gpu_->BeginOp({.name = "refused"});
  Ticket ticket = op.AcquireAll({{.tensor = tensor_, .tier = kHbm0}});
  EXPECT_THAT(stream_.WaitOn(ticket), HasCode(absl::StatusCode::kInternal));
  EXPECT_THAT(ticket.Take(), HasCode(absl::StatusCode::kInternal)) << "pages are on their way";
  Ticket again = op.AcquireAll({{.tensor = tensor_, .tier = kHbm0}});
  EXPECT_THAT(stream_.WaitOn(again), IsOk());
  EXPECT_THAT(again.Take(), IsOk());
  gpu_.fake().ReleaseCopies();
  EXPECT_EQ(gpu_.Bytes(tensor_).value(), bytes_);
}

TEST_F(CudaWaitOnTest, ADeadGpuLosesWhatWasToBeWritten) {
  {
    Op op = gpu_->BeginOp({.name = "dies"});
    const std::vector<Lease> leases = WaitOn(op, AccessMode::kReadWrite);
    gpu_.fake().FailWork(1, device::kCudaIllegalAddress);
    gpu_.fake().ReleaseCopies();
  }
  EXPECT_THAT(gpu_.Bytes(tensor_), HasCode(absl::StatusCode::kDataLoss));
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

TEST(CudaStreamTest, OwnStreamsOfTwoThreadsDoNotWaitForEachOther) {
  CudaRuntimeFixture gpu;
  gpu.runtime().Start();
  StreamRef own = gpu->AdoptStream(device::CudaPerThreadStream()).value();
  const auto keep = [&](const std::string& name) {
    const TensorId tensor = gpu.runtime().Make(name, kGpuPage);
    auto lease =
        gpu.runtime().Acquire({.tensor = tensor, .mode = AccessMode::kReadWrite, .tier = kHbm0});
    EXPECT_THAT(own.ReleaseAfter(*std::move(lease)), IsOk());
    return tensor;
  };
  ASSERT_EQ(gpu.fake().LaunchGate(0, device::CudaPerThreadStream()), device::kCudaSuccess);
  keep("behind the gate");
  TensorId tensor;
  std::thread([&] { tensor = keep("of another thread"); }).join();
  Op op = gpu->BeginOp({.name = "read"});
  Ticket ticket = op.AcquireAll({{.tensor = tensor, .tier = kDram0}});
  const auto late = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  EXPECT_THAT(ticket.Wait(late), IsOk());
  gpu.fake().Open(0);
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

/// Whether the Runtime's end takes longer than `patience` while the gate on the user's stream is
/// closed. The gate is opened at last.
bool EndWaitsForGate(CudaRuntimeFixture& gpu, std::chrono::milliseconds patience) {
  auto end = std::async(std::launch::async, [&] { gpu.runtime().Stop(); });
  const bool waits = end.wait_for(patience) != std::future_status::ready;
  gpu.fake().Open(0);
  return waits;
}

TEST(CudaStreamTest, TheEndWaitsForNoWorkOfTheUsersAlone) {
  for (const bool kept : {true, false}) {
    CudaRuntimeFixture gpu;
    // Giving registered memory back waits for all that the GPU runs.
    gpu.fake().Inject(
        {.entry = testing::FakeEntry::kRegisterHost, .code = device::kCudaNotSupported});
    gpu.runtime().Start();
    StreamRef stream = gpu->AdoptStream(gpu.user_stream()).value();
    ASSERT_EQ(gpu.fake().LaunchGate(0, gpu.user_stream()), device::kCudaSuccess);
    if (!kept) stream = StreamRef();
    EXPECT_FALSE(EndWaitsForGate(gpu, std::chrono::seconds(30))) << kept;
  }
}

TEST(CudaStreamTest, TheEndWaitsForWorkThatHasALease) {
  for (const bool kept : {true, false}) {
    CudaRuntimeFixture gpu;
    gpu.runtime().Start();
    StreamRef stream = gpu->AdoptStream(gpu.user_stream()).value();
    ASSERT_EQ(gpu.fake().LaunchGate(0, gpu.user_stream()), device::kCudaSuccess);
    ASSERT_THAT(gpu.Add(gpu.runtime().Make("t", kGpuPage), 1, stream), IsOk());
    if (!kept) stream = StreamRef();
    EXPECT_TRUE(EndWaitsForGate(gpu, std::chrono::milliseconds(300))) << kept;
  }
}

TEST(CudaStreamTest, TheEndWaitsForACallOfAStreamInAnotherThread) {
  for (const bool adopted : {true, false}) {
    CudaRuntimeFixture gpu;
    gpu.runtime().Start();
    StreamRef stream =
        (adopted ? gpu->AdoptStream(gpu.user_stream()) : gpu->CreateStream()).value();
    std::promise<void> entered;
    std::promise<void> leaves;
    std::thread caller([&] {
      stream.Enqueue([&] {
        entered.set_value();
        leaves.get_future().wait();
      });
    });
    entered.get_future().wait();
    auto end = std::async(std::launch::async, [&] { gpu.runtime().Stop(); });
    EXPECT_EQ(end.wait_for(std::chrono::milliseconds(300)), std::future_status::timeout) << adopted;
    leaves.set_value();
    caller.join();
  }
}

TEST(CudaStreamTest, AStreamThatIsGoneIsRefusedAndTheGpuGoesOn) {
  CudaRuntimeFixture gpu;
  gpu.runtime().Start();
  device::CudaStream gone = nullptr;
  ASSERT_EQ(gpu.fake().api().CreateStream(&gone), device::kCudaSuccess);
  StreamRef stream = gpu->AdoptStream(gone).value();
  ASSERT_EQ(gpu.fake().api().DestroyStream(gone), device::kCudaSuccess);
  auto lease = gpu.runtime().Acquire({.tensor = gpu.runtime().Make("t", kGpuPage), .tier = kHbm0});
  ASSERT_THAT(lease, IsOk());
  const absl::Status refused = stream.ReleaseAfter(*std::move(lease));
  EXPECT_THAT(refused, HasCode(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("CUDA_ERROR_INVALID_HANDLE"));
  EXPECT_TRUE(lease->valid()) << "the lease stays the caller's";
  EXPECT_THAT(gpu.runtime().Acquire({.tensor = gpu.runtime().Make("u", kGpuPage), .tier = kHbm0}),
              IsOk());
}

TEST(CudaStreamTest, TheEmulatedDeviceAdoptsNone) {
  testing::RuntimeFixture runtime;
  runtime.Start();
  EXPECT_THAT(runtime->AdoptStream(nullptr), HasCode(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace sluice
