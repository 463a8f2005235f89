#include "runtime/device/cuda/cuda_device.h"

#include <future>
#include <memory>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/runtime/device/cuda/cuda_under_test.h"
#include "tests/runtime/device/device_contract.h"
#include "tests/support/cuda/fake_cuda.h"

namespace sluice::device {
namespace {

using ::testing::AllOf;
using testing::FakeCuda;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// The driver of the device that the contract suite has now.
struct Driver {
  std::unique_ptr<FakeCuda> fake;
  CudaCode CopyOut(std::byte* to, const std::byte* from, std::uint64_t bytes) {
    const UserContext user(fake->api());
    CudaStream stream = nullptr;
    EXPECT_EQ(fake->api().CreateStream(&stream), kCudaSuccess);
    const CudaCode code = fake->api().CopyOut({.to = to, .from = from, .bytes = bytes}, stream);
    EXPECT_EQ(fake->api().DestroyStream(stream), kCudaSuccess);
    return code;
  }
  CudaCode CopyIn(std::byte* to, const std::byte* from, std::uint64_t bytes) {
    const UserContext user(fake->api());
    CudaStream stream = nullptr;
    EXPECT_EQ(fake->api().CreateStream(&stream), kCudaSuccess);
    const CudaCode code = fake->api().CopyIn({.to = to, .from = from, .bytes = bytes}, stream);
    EXPECT_EQ(fake->api().DestroyStream(stream), kCudaSuccess);
    return code;
  }
};

DeviceFactory OnFake(std::string name, const testing::FakeCudaOptions& options) {
  auto driver = std::make_shared<Driver>();
  return {.name = std::move(name),
          .page_bytes = options.facts.granularity,
          .make =
              [driver, options](std::uint32_t frames) {
                driver->fake = std::make_unique<FakeCuda>(options);
                return MakeCudaDevice(driver->fake->api(),
                                      {.page_bytes = options.facts.granularity, .frames = frames});
              },
          .accessible =
              [driver](const std::byte* address) {
                std::byte byte{};
                return driver->CopyOut(&byte, address, 1) == kCudaSuccess;
              },
          .read =
              [driver](const std::byte* from, std::span<std::byte> host) {
                EXPECT_EQ(driver->CopyOut(host.data(), from, host.size()), kCudaSuccess);
              },
          .write =
              [driver](std::byte* to, std::span<const std::byte> host) {
                EXPECT_EQ(driver->CopyIn(to, host.data(), host.size()), kCudaSuccess);
              }};
}

testing::FakeCudaOptions WithoutBatches() {
  testing::FakeCudaOptions options = SmallPages();
  options.batch_copies = false;
  return options;
}

testing::FakeCudaOptions LargePages() {
  testing::FakeCudaOptions options;
  options.garbage = false;
  return options;
}

INSTANTIATE_TEST_SUITE_P(Cuda,
                         DeviceContractTest,
                         ::testing::Values(OnFake("SmallPages", SmallPages()),
                                           OnFake("WithoutBatches", WithoutBatches()),
                                           OnFake("PagesOfTwoMebibytes", LargePages())),
                         [](const auto& instance) { return instance.param.name; });

class CudaDeviceTest : public ::testing::Test {
 protected:
  void Make(std::uint32_t frames, const testing::FakeCudaOptions& options = SmallPages()) {
    fake_ = std::make_unique<FakeCuda>(options);
    auto device =
        MakeCudaDevice(fake_->api(), {.page_bytes = options.facts.granularity, .frames = frames});
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
  }
  absl::Status CopyIn(std::span<const std::byte> host, std::uint32_t frame) {
    std::promise<absl::Status> done;
    device_->CopyIn(host, frame, [&](absl::Status status) { done.set_value(std::move(status)); });
    return done.get_future().get();
  }
  absl::Status CopyOut(std::uint32_t frame, std::span<std::byte> host) {
    std::promise<absl::Status> done;
    device_->CopyOut(frame, host, [&](absl::Status status) { done.set_value(std::move(status)); });
    return done.get_future().get();
  }

  std::unique_ptr<FakeCuda> fake_;
  std::unique_ptr<Device> device_;
};

TEST_F(CudaDeviceTest, GivesEverythingBack) {
  Make(8);
  {
    const PinnedPages host(*device_, 2);
    ASSERT_TRUE(host.status().ok()) << host.status();
    ASSERT_TRUE(CopyIn(host.Page(0), 3).ok());
    const auto range = device_->ReserveRange(2 * kFakePageBytes).value();
    ASSERT_TRUE(device_->Map(*range, 1, 3).ok());
    const auto stream = device_->CreateStream().value();
    const absl::Status taken =
        stream->Notify([](const absl::Status& status) { EXPECT_TRUE(status.ok()) << status; });
    ASSERT_TRUE(taken.ok()) << taken;
  }
  ASSERT_TRUE(device_->Resize(2).ok());
  device_.reset();
  EXPECT_THAT(fake_->Leaks(), IsEmpty());
}

TEST_F(CudaDeviceTest, AFrameThatTheDriverDoesNotUnmapIsWholeAndGoesLater) {
  Make(4);
  fake_->Inject({.entry = testing::FakeEntry::kUnmapMemory, .code = kCudaInvalidValue});
  EXPECT_EQ(device_->Resize(2).status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(device_->frame_count(), 4u);
  EXPECT_EQ(device_->Resize(2).value(), 2u);
  EXPECT_EQ(device_->Resize(4).value(), 4u);
  device_.reset();
  EXPECT_THAT(fake_->Leaks(), IsEmpty());
}

TEST_F(CudaDeviceTest, CopiesOfRegisteredMemoryNeverStopTheirThreadAndRunSeveralAtOnce) {
  testing::FakeCudaOptions options = SmallPages();
  options.link_time = std::chrono::microseconds(500);
  Make(64, options);
  const PinnedPages host(*device_, 64);
  Completions done(64);
  for (std::uint32_t i = 0; i < 32; ++i) device_->CopyIn(host.Page(i), i, done.Done());
  for (std::uint32_t i = 32; i < 64; ++i) device_->CopyOut(i, host.Page(i), done.Done());
  done.Wait();
  EXPECT_EQ(fake_->blocking_copies(), 0u);
  EXPECT_GE(fake_->most_copies_in(), 2);
  EXPECT_GE(fake_->most_copies_out(), 2);
  EXPECT_EQ(fake_->calls(testing::FakeEntry::kSynchronizeStream), 0u);
}

TEST_F(CudaDeviceTest, AGraphSeesTheFrameThatIsMappedWhenItIsReplayed) {
  Make(4);
  const PinnedPages host(*device_, 1);
  const auto range = device_->ReserveRange(kFakePageBytes).value();
  Fill(host.Page(0), 10);
  ASSERT_TRUE(CopyIn(host.Page(0), 1).ok());
  Fill(host.Page(0), 20);
  ASSERT_TRUE(CopyIn(host.Page(0), 2).ok());
  ASSERT_TRUE(device_->Map(*range, 0, 1).ok());

  const UserContext user(fake_->api());
  CudaStream stream = nullptr;
  ASSERT_EQ(fake_->api().CreateStream(&stream), kCudaSuccess);
  testing::CudaGraph graph = nullptr;
  ASSERT_EQ(fake_->BeginCapture(stream, /*global=*/true), kCudaSuccess);
  ASSERT_EQ(fake_->LaunchAdd({range->base(), kFakePageBytes}, 1, stream), kCudaSuccess);
  ASSERT_EQ(fake_->EndCapture(stream, &graph), kCudaSuccess);
  ASSERT_EQ(fake_->LaunchGraph(graph, stream), kCudaSuccess);
  ASSERT_EQ(fake_->api().SynchronizeStream(stream), kCudaSuccess);
  ASSERT_TRUE(device_->Map(*range, 0, 2).ok()) << "the page was evicted, and came back elsewhere";
  ASSERT_EQ(fake_->LaunchGraph(graph, stream), kCudaSuccess);
  ASSERT_EQ(fake_->api().SynchronizeStream(stream), kCudaSuccess);
  ASSERT_EQ(fake_->DestroyGraph(graph), kCudaSuccess);
  ASSERT_EQ(fake_->api().DestroyStream(stream), kCudaSuccess);

  ASSERT_TRUE(CopyOut(1, host.Page(0)).ok());
  EXPECT_TRUE(AllAre(host.Page(0), 11));
  ASSERT_TRUE(CopyOut(2, host.Page(0)).ok());
  EXPECT_TRUE(AllAre(host.Page(0), 21));
}

TEST_F(CudaDeviceTest, WorksWhileTheUserCapturesAGraphAndLeavesTheCaptureWhole) {
  Make(4);
  const PinnedPages host(*device_, 1);
  const UserContext user(fake_->api());
  CudaStream stream = nullptr;
  ASSERT_EQ(fake_->api().CreateStream(&stream), kCudaSuccess);
  ASSERT_EQ(fake_->BeginCapture(stream, /*global=*/true), kCudaSuccess);
  EXPECT_TRUE(CopyIn(host.Page(0), 0).ok());
  EXPECT_TRUE(CopyOut(0, host.Page(0)).ok());
  testing::CudaGraph graph = nullptr;
  EXPECT_EQ(fake_->EndCapture(stream, &graph), kCudaSuccess) << "the capture is whole";
  EXPECT_EQ(fake_->DestroyGraph(graph), kCudaSuccess);
  EXPECT_EQ(fake_->api().DestroyStream(stream), kCudaSuccess);
}

TEST_F(CudaDeviceTest, ADeadGpuFailsCopiesByNameAndLosesWhatItHeld) {
  Make(4);
  const PinnedPages host(*device_, 1);
  ASSERT_TRUE(CopyIn(host.Page(0), 0).ok());
  fake_->FailWork(1, kCudaIllegalAddress);
  const absl::Status first = CopyIn(host.Page(0), 1);
  EXPECT_EQ(first.code(), absl::StatusCode::kUnavailable) << first;
  EXPECT_THAT(std::string(first.message()),
              AllOf(HasSubstr("cuEventQuery"), HasSubstr("ILLEGAL_ADDRESS")));
  const absl::Status out = CopyOut(0, host.Page(0));
  EXPECT_EQ(out.code(), absl::StatusCode::kDataLoss) << out;
  EXPECT_EQ(out.message(), first.message()) << "the first call that failed is named";
  EXPECT_EQ(CopyIn(host.Page(0), 2).code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(device_->CreateStream().ok());
  EXPECT_FALSE(device_->ReserveRange(kFakePageBytes).ok());
}

TEST_F(CudaDeviceTest, AFullCardIsRefusedWithBothFiguresAndNothingTaken) {
  testing::FakeCudaOptions options = SmallPages();
  options.facts.memory_bytes = 16 * kFakePageBytes;
  FakeCuda fake(options);
  fake.TakeMemory(10 * static_cast<std::int64_t>(kFakePageBytes));
  const auto device = MakeCudaDevice(fake.api(), {.page_bytes = kFakePageBytes, .frames = 8});
  ASSERT_EQ(device.status().code(), absl::StatusCode::kResourceExhausted) << device.status();
  EXPECT_THAT(std::string(device.status().message()),
              AllOf(HasSubstr("hbm of 512 KiB does not fit"),
                    HasSubstr("of the GPU's 1 MiB"),
                    HasSubstr("beside 384 KiB taken already")));
  EXPECT_THAT(fake.Leaks(), IsEmpty());
}

TEST_F(CudaDeviceTest, RefusesPagesThatTheGpuCannotMapAlone) {
  FakeCuda fake;
  const auto device = MakeCudaDevice(fake.api(), {.page_bytes = 256 << 10, .frames = 8});
  ASSERT_EQ(device.status().code(), absl::StatusCode::kInvalidArgument) << device.status();
  EXPECT_THAT(std::string(device.status().message()),
              AllOf(HasSubstr("page_bytes"), HasSubstr("256 KiB"), HasSubstr("2 MiB")));
}

}  // namespace
}  // namespace sluice::device
