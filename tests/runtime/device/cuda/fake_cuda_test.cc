// Helps of the fake driver for tests, beside its driver calls.

#include "tests/support/cuda/fake_cuda.h"

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/runtime/device/cuda/gpu_session.h"
#include "tests/support/child_process.h"
#include "tests/support/memory_probe.h"
#include "tests/support/sanitizers.h"

namespace sluice::testing {
namespace {

using device::CudaCode;
using device::CudaContext;
using device::CudaMemory;
using device::CudaStream;
using device::kCudaSuccess;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

FakeCudaOptions SmallFrames() {
  FakeCudaOptions options;
  options.facts.granularity = 64 << 10;
  options.facts.memory_bytes = 16 << 20;
  return options;
}

TEST(FakeCudaTest, CountsBytesOfEachDirection) {
  FakeCuda fake(SmallFrames());
  {
    GpuSession gpu(fake);
    CudaStream stream = gpu.Stream();
    std::byte* address = gpu.Mapped();
    gpu.CopyIn(address, gpu.Pinned(7), stream);
    gpu.CopyIn(address, gpu.Pinned(8), stream);
    CUDA_OK(fake.LaunchAdd({address, gpu.frame_bytes()}, 3, stream));
    gpu.Finish(stream);
    EXPECT_THAT(gpu.Ends(address), ElementsAre(11, 11));
    EXPECT_EQ(fake.Peek(address, 1).front(), std::byte{11});
    EXPECT_EQ(fake.bytes_in(), 2 * gpu.frame_bytes());
    EXPECT_EQ(fake.bytes_out(), gpu.frame_bytes());
    EXPECT_EQ(fake.blocking_copies(), 0u);
    EXPECT_EQ(fake.calls(FakeEntry::kCopyIn), 2u);
    EXPECT_EQ(fake.calls(FakeEntry::kMapMemory), 1u);
    EXPECT_THAT(fake.calls(), Gt(10u));
  }
  EXPECT_THAT(fake.Leaks(), IsEmpty());
}

TEST(FakeCudaTest, CountsCopiesThatBlock) {
  FakeCuda fake(SmallFrames());
  GpuSession gpu(fake);
  std::byte* address = gpu.Mapped();
  const std::vector<std::byte> host(gpu.frame_bytes());
  gpu.CopyIn(address, host, gpu.Stream());
  EXPECT_EQ(fake.blocking_copies(), 1u);
}

TEST(FakeCudaTest, CountsCopiesInFlight) {
  FakeCuda fake(SmallFrames());
  GpuSession gpu(fake);
  CudaStream in = gpu.Stream();
  CudaStream out = gpu.Stream();
  std::byte* address = gpu.Mapped();
  std::byte* other = gpu.Mapped();
  const std::span<std::byte> host = gpu.Pinned(1);
  CUDA_OK(fake.LaunchGate(0, in));
  for (int i = 0; i < 5; ++i) {
    gpu.CopyIn(address, host, in);
  }
  gpu.CopyOut(gpu.Pinned(0), other, out);
  EXPECT_EQ(fake.most_copies_in(), 5);
  EXPECT_EQ(fake.most_copies_out(), 1);
  fake.Open(0);
  gpu.Finish(in);
  gpu.Finish(out);
}

TEST(FakeCudaTest, TheHostDoesNotReachDeviceAddresses) {
  FakeCuda fake(SmallFrames());
  GpuSession gpu(fake);
  EXPECT_FALSE(IsReadable(gpu.Mapped()));
}

TEST(FakeCudaTest, NewMemoryHoldsGarbage) {
  FakeCuda fake(SmallFrames());
  GpuSession gpu(fake);
  EXPECT_THAT(gpu.Ends(gpu.Mapped()), ElementsAre(0xA5, 0xA5));
}

TEST(FakeCudaTest, ListsWhatWasNotGivenBack) {
  FakeCuda fake(SmallFrames());
  device::CudaApi& api = fake.api();
  CudaContext context = nullptr;
  CudaStream stream = nullptr;
  device::CudaEvent event = nullptr;
  CudaMemory memory = 0;
  std::byte* address = nullptr;
  alignas(4096) static std::byte host[4096];
  CUDA_OK(api.RetainContext(0, &context));
  CUDA_OK(api.PushContext(context));
  CUDA_OK(api.CreateStream(&stream));
  CUDA_OK(api.CreateEvent(&event));
  CUDA_OK(api.CreateMemory(0, 64 << 10, &memory));
  CUDA_OK(api.ReserveAddresses(64 << 10, &address));
  CUDA_OK(api.MapMemory(address, 64 << 10, memory));
  CUDA_OK(api.RegisterHost(host, sizeof(host)));
  EXPECT_THAT(fake.Leaks(),
              ElementsAre("context of device 0",
                          "1 streams of device 0",
                          "1 events",
                          "memory 1 of 65536 bytes",
                          "memory 1 mapped 1 times",
                          fmt::format("addresses at {}, 1 pages", fmt::ptr(address)),
                          HasSubstr("host memory at 0x"),
                          "1 contexts pushed by a thread"));
  CUDA_OK(api.DestroyStream(stream));
  CUDA_OK(api.DestroyEvent(event));
  CUDA_OK(api.ReleaseMemory(memory));
  CUDA_OK(api.UnmapMemory(address, 64 << 10));
  CUDA_OK(api.FreeAddresses(address, 64 << 10));
  CUDA_OK(api.UnregisterHost(host));
  CUDA_OK(api.PopContext());
  CUDA_OK(api.ReleaseContext(0));
  EXPECT_THAT(fake.Leaks(), IsEmpty());
}

TEST(FakeCudaTest, MemoryComesBackAfterReleaseAndUnmap) {
  FakeCuda fake(SmallFrames());
  GpuSession gpu(fake);
  std::uint64_t before = 0;
  std::uint64_t now = 0;
  std::uint64_t all = 0;
  CUDA_OK(gpu.api().FreeMemory(&before, &all));
  CudaMemory memory = 0;
  CUDA_OK(gpu.api().CreateMemory(0, gpu.frame_bytes(), &memory));
  std::byte* address = gpu.Addresses(gpu.frame_bytes());
  gpu.Map(address, memory);
  CUDA_OK(gpu.api().ReleaseMemory(memory));
  CUDA_OK(gpu.api().FreeMemory(&now, &all));
  EXPECT_EQ(now, before - gpu.frame_bytes());
  gpu.Unmap(address);
  CUDA_OK(gpu.api().FreeMemory(&now, &all));
  EXPECT_EQ(now, before);
  fake.TakeMemory(static_cast<std::int64_t>(all));
  EXPECT_EQ(gpu.api().CreateMemory(0, gpu.frame_bytes(), &memory), device::kCudaOutOfMemory);
  fake.TakeMemory(-static_cast<std::int64_t>(all));
}

TEST(FakeCudaTest, OffersWhatItsFactsSay) {
  FakeCudaOptions options = SmallFrames();
  options.batch_copies = false;
  options.facts.maps_memory = false;
  options.facts.registers_memory = false;
  FakeCuda fake(options);
  GpuSession gpu(fake);
  CudaMemory memory = 0;
  std::vector<std::byte> host(4096);
  EXPECT_EQ(gpu.api().CopyBatch({}, gpu.Stream()), device::kCudaNotSupported);
  EXPECT_EQ(gpu.api().CreateMemory(0, 64 << 10, &memory), device::kCudaNotSupported);
  EXPECT_EQ(gpu.api().RegisterHost(host.data(), host.size()), device::kCudaNotSupported);
}

TEST(FakeCudaTest, HasNoOrManyDevices) {
  FakeCudaOptions options = SmallFrames();
  options.devices = 0;
  options.count_code = device::kCudaNoDevice;
  FakeCuda none(options);
  int count = -1;
  EXPECT_EQ(none.api().CountDevices(&count), device::kCudaNoDevice);
  options = SmallFrames();
  options.devices = 2;
  FakeCuda two(options);
  CUDA_OK(two.api().CountDevices(&count));
  EXPECT_EQ(count, 2);
  device::CudaDeviceFacts first;
  device::CudaDeviceFacts second;
  CUDA_OK(two.api().DescribeDevice(0, &first));
  CUDA_OK(two.api().DescribeDevice(1, &second));
  EXPECT_NE(first.uuid, second.uuid);
  EXPECT_NE(first.pci_address, second.pci_address);
}

TEST(FakeCudaTest, AccessIsForOneDevice) {
  FakeCudaOptions options = SmallFrames();
  options.devices = 2;
  FakeCuda fake(options);
  GpuSession gpu(fake);
  std::byte* address = gpu.Mapped();
  CudaContext other = nullptr;
  CUDA_OK(gpu.api().RetainContext(1, &other));
  CUDA_OK(gpu.api().PushContext(other));
  CudaStream stream = gpu.Stream();
  CUDA_OK(fake.LaunchAdd({address, 1}, 1, stream));
  EXPECT_EQ(gpu.api().SynchronizeStream(stream), device::kCudaIllegalAddress);
  CUDA_OK(gpu.api().PopContext());
  CUDA_OK(gpu.api().ReleaseContext(1));
  EXPECT_THAT(gpu.Ends(address), ElementsAre(0xA5, 0xA5));
}

TEST(FakeCudaTest, AChildOfForkMakesNoCall) {
  SLUICE_SKIP_FORK_UNDER_ASAN();
  FakeCuda fake(SmallFrames());
  EXPECT_EQ(RunInChild([&] {
              int count = 0;
              return std::to_string(fake.api().CountDevices(&count));
            }),
            "3");
}

// ThreadSanitizer reports the unmap itself (fake_races_test.cc).
#if !defined(ABSL_HAVE_THREAD_SANITIZER)
TEST(FakeCudaTest, ALateUnmapEndsACopyThatRuns) {
  FakeCudaOptions options = SmallFrames();
  options.link_time = std::chrono::milliseconds(50);
  FakeCuda fake(options);
  GpuSession gpu(fake);
  CudaStream stream = gpu.Stream();
  std::byte* address = gpu.Mapped();
  gpu.CopyIn(address, gpu.Pinned(1), stream);
  while (fake.bytes_in() == 0) {
    std::this_thread::yield();
  }
  gpu.Unmap(address);
  EXPECT_EQ(gpu.api().SynchronizeStream(stream), device::kCudaIllegalAddress);
}
#endif

}  // namespace
}  // namespace sluice::testing
