// Errors that the fake driver gives on demand.

#include <functional>
#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/runtime/device/cuda/gpu_session.h"
#include "tests/support/cuda/fake_cuda.h"

namespace sluice::testing {
namespace {

using device::CudaCode;
using device::CudaContext;
using device::CudaEvent;
using device::CudaMemory;
using device::CudaStream;
using device::kCudaSuccess;
using ::testing::IsEmpty;

constexpr std::uint64_t kFrameBytes = 64 << 10;

FakeCudaOptions OneFrame() {
  FakeCudaOptions options;
  options.facts.granularity = kFrameBytes;
  options.facts.memory_bytes = 16 << 20;
  return options;
}

/// Makes calls in order until one fails. Then it gives back all that the others made.
class CarefulRun {
 public:
  explicit CarefulRun(device::CudaApi& api) : api_(api) {}

  CudaCode Run() {
    Try([&] { return api_.RetainContext(0, &context_); }, [&] { return api_.ReleaseContext(0); });
    Try([&] { return api_.PushContext(context_); }, [&] { return api_.PopContext(); });
    Try([&] { return api_.CreateStream(&stream_); }, [&] { return api_.DestroyStream(stream_); });
    Try([&] { return api_.CreateEvent(&event_); }, [&] { return api_.DestroyEvent(event_); });
    Try([&] { return api_.CreateMemory(0, kFrameBytes, &memory_); },
        [&] { return api_.ReleaseMemory(memory_); });
    Try([&] { return api_.ReserveAddresses(kFrameBytes, &address_); },
        [&] { return api_.FreeAddresses(address_, kFrameBytes); });
    Try([&] { return api_.MapMemory(address_, kFrameBytes, memory_); },
        [&] { return api_.UnmapMemory(address_, kFrameBytes); });
    Try([&] { return api_.AllowAccess(address_, kFrameBytes, 0); }, nullptr);
    Try([&] { return api_.Fill(address_, 1, kFrameBytes, stream_); }, [&] { return FillIsOver(); });
    for (auto undo = undo_.rbegin(); undo != undo_.rend(); ++undo) {
      Keep((*undo)());
    }
    return first_error_;
  }

 private:
  void Try(const std::function<CudaCode()>& call, const std::function<CudaCode()>& undo) {
    if (first_error_ != kCudaSuccess) {
      return;
    }
    Keep(call());
    if (first_error_ == kCudaSuccess && undo != nullptr) {
      undo_.push_back(undo);
    }
  }
  /// Waits for the fill, also where the first call fails: its mapping is removed next.
  CudaCode FillIsOver() {
    const CudaCode code = api_.SynchronizeStream(stream_);
    if (code != kCudaSuccess) Keep(api_.SynchronizeStream(stream_));
    return code;
  }
  void Keep(CudaCode code) {
    if (first_error_ == kCudaSuccess) {
      first_error_ = code;
    }
  }

  device::CudaApi& api_;
  CudaCode first_error_ = kCudaSuccess;
  std::vector<std::function<CudaCode()>> undo_;
  CudaContext context_ = nullptr;
  CudaStream stream_ = nullptr;
  CudaEvent event_ = nullptr;
  CudaMemory memory_ = 0;
  std::byte* address_ = nullptr;
};

bool GivesBack(FakeEntry entry) {
  const std::string name = FakeEntryName(entry);
  return name.starts_with("Destroy") || name.starts_with("Release") || name.starts_with("Free") ||
         name.starts_with("Pop") || name.starts_with("Unmap");
}

TEST(FakeFaultsTest, EachCallOfARunFailsOnce) {
  std::uint64_t runs = 0;
  for (std::uint64_t nth = 1;; ++nth) {
    SCOPED_TRACE("call " + std::to_string(nth));
    FakeCuda fake(OneFrame());
    fake.Inject({.nth = nth, .code = 999});
    const CudaCode code = CarefulRun(fake.api()).Run();
    if (!fake.injected()) {
      EXPECT_EQ(code, kCudaSuccess);
      EXPECT_THAT(fake.Leaks(), IsEmpty());
      EXPECT_EQ(fake.calls(), nth - 1);
      break;
    }
    EXPECT_EQ(code, 999);
    EXPECT_EQ(fake.Leaks().empty(), !GivesBack(*fake.injected()))
        << FakeEntryName(*fake.injected());
    ++runs;
  }
  EXPECT_EQ(runs, 17u);
}

TEST(FakeFaultsTest, TheNthCallOfAnEntryFails) {
  FakeCuda fake(OneFrame());
  GpuSession gpu(fake);
  fake.Inject({.entry = FakeEntry::kCreateEvent, .nth = 2, .code = device::kCudaOutOfMemory});
  gpu.Event();
  EXPECT_FALSE(fake.injected().has_value());
  CudaEvent event = nullptr;
  EXPECT_EQ(gpu.api().CreateEvent(&event), device::kCudaOutOfMemory);
  EXPECT_EQ(fake.injected(), FakeEntry::kCreateEvent);
  gpu.Event();
}

TEST(FakeFaultsTest, AStickyErrorComesBackFromEveryLaterCall) {
  FakeCuda fake(OneFrame());
  GpuSession gpu(fake);
  CudaStream stream = gpu.Stream();
  std::byte* address = gpu.Mapped();
  fake.Inject({.entry = FakeEntry::kRecordEvent, .code = 719, .sticky = true});
  CudaEvent event = gpu.Event();
  EXPECT_EQ(gpu.api().RecordEvent(event, stream), 719);
  EXPECT_EQ(gpu.api().QueryEvent(event), 719);
  EXPECT_EQ(gpu.api().UnmapMemory(address, gpu.frame_bytes()), 719);
  EXPECT_EQ(gpu.api().DestroyStream(stream), 719);
  EXPECT_EQ(fake.LaunchAdd({address, 1}, 1, stream), 719);
}

TEST(FakeFaultsTest, WorkThatFailsIsSeenByALaterCall) {
  FakeCuda fake(OneFrame());
  {
    GpuSession gpu(fake);
    CudaStream stream = gpu.Stream();
    std::byte* address = gpu.Mapped();
    CudaEvent event = gpu.Event();
    CUDA_OK(fake.LaunchGate(0, stream));
    fake.FailWork(2, 719);
    CUDA_OK(gpu.api().Fill(address, 1, gpu.frame_bytes(), stream));
    CUDA_OK(gpu.api().Fill(address, 2, gpu.frame_bytes(), stream));
    CUDA_OK(gpu.api().RecordEvent(event, stream));
    fake.Open(0);
    CudaCode code = device::kCudaNotReady;
    while (code == device::kCudaNotReady) {
      code = gpu.api().QueryEvent(event);
    }
    EXPECT_EQ(code, 719);
    EXPECT_EQ(gpu.api().CreateEvent(&event), 719);
  }
  EXPECT_THAT(fake.Leaks(), IsEmpty());
}

// Memory that copies used may be freed after an error, since no work runs then. ThreadSanitizer
// would report a copy in flight.
TEST(FakeFaultsTest, HostMemoryIsTheCallersAfterASeenError) {
  FakeCuda fake(OneFrame());
  GpuSession gpu(fake);
  CudaStream stream = gpu.Stream();
  CudaStream other = gpu.Stream();
  std::byte* address = gpu.Mapped();
  const std::span<std::byte> host = gpu.Pinned(0);
  for (int i = 0; i < 10; ++i) {
    gpu.CopyOut(host, address, stream);
  }
  std::byte* unmapped = gpu.Addresses(gpu.frame_bytes());
  CUDA_OK(fake.LaunchAdd({unmapped, 1}, 1, other));
  EXPECT_EQ(gpu.api().SynchronizeStream(other), device::kCudaIllegalAddress);
  host[0] = std::byte{1};
}

}  // namespace
}  // namespace sluice::testing
