// Truths of copies, fills and registered host memory.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "tests/runtime/device/cuda/driver_truths.h"

namespace sluice::testing {
namespace {

using device::CudaCode;
using device::CudaCopy;
using device::CudaStream;
using device::kCudaNotReady;
using device::kCudaSuccess;
using ::testing::ElementsAre;

/// One file's pages at two addresses.
class TwoAddresses {
 public:
  explicit TwoAddresses(std::uint64_t bytes) : bytes_(bytes), file_(memfd_create("two", 0)) {
    EXPECT_EQ(ftruncate(file_, static_cast<off_t>(bytes)), 0);
    first = Map();
    second = Map();
  }
  ~TwoAddresses() {
    munmap(first, bytes_);
    munmap(second, bytes_);
    close(file_);
  }
  TwoAddresses(const TwoAddresses&) = delete;
  TwoAddresses& operator=(const TwoAddresses&) = delete;

  std::byte* first = nullptr;
  std::byte* second = nullptr;

 private:
  std::byte* Map() {
    void* address = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    EXPECT_NE(address, MAP_FAILED);
    return static_cast<std::byte*>(address);
  }

  const std::uint64_t bytes_;
  const int file_;
};

TEST_P(CudaTruthTest, ACopyOfRegisteredMemoryDoesNotBlock) {
  CudaStream stream = gpu().Stream();
  std::byte* address = gpu().Mapped();
  const std::span<std::byte> from = gpu().Pinned(4);
  const std::span<std::byte> to = gpu().Pinned(0);
  CUDA_OK(lab().LaunchGate(0, stream));
  gpu().CopyIn(address, from, stream);
  gpu().CopyOut(to, address, stream);
  EXPECT_EQ(QueryAfter(stream), kCudaNotReady);
  lab().Open(0);
  gpu().Finish(stream);
  EXPECT_TRUE(AllAre(to, 4));
}

TEST_P(CudaTruthTest, ACopyOfOtherMemoryBlocksItsCaller) {
  CudaStream stream = gpu().Stream();
  std::byte* address = gpu().Mapped();
  std::vector<std::byte> host(gpu().frame_bytes(), std::byte{6});
  {
    CUDA_OK(lab().LaunchGate(0, stream));
    const LateOpener opener(lab(), 0);
    gpu().CopyIn(address, host, stream);
    EXPECT_TRUE(opener.opened());
  }
  std::fill(host.begin(), host.end(), std::byte{0});
  {
    CUDA_OK(lab().LaunchGate(1, stream));
    const LateOpener opener(lab(), 1);
    gpu().CopyOut(host, address, stream);
    EXPECT_TRUE(opener.opened());
  }
  EXPECT_TRUE(AllAre(host, 6));
}

TEST_P(CudaTruthTest, ASecondAddressOfRegisteredMemoryNeedsARegistrationOfItsOwn) {
  const std::uint64_t bytes = gpu().frame_bytes();
  const TwoAddresses host(bytes);
  std::byte* address = gpu().Mapped();
  CudaStream stream = gpu().Stream();
  CUDA_OK(api().RegisterHost(host.first, bytes));
  bool registered = true;
  CUDA_OK(api().IsRegistered(host.second, &registered));
  EXPECT_FALSE(registered);
  {
    CUDA_OK(lab().LaunchGate(0, stream));
    const LateOpener opener(lab(), 0);
    gpu().CopyIn(address, {host.second, bytes}, stream);
    EXPECT_TRUE(opener.opened());
  }
  CUDA_OK(api().RegisterHost(host.second, bytes));
  CUDA_OK(lab().LaunchGate(1, stream));
  gpu().CopyIn(address, {host.second, bytes}, stream);
  EXPECT_EQ(QueryAfter(stream), kCudaNotReady);
  lab().Open(1);
  gpu().Finish(stream);
  CUDA_OK(api().UnregisterHost(host.first));
  CUDA_OK(api().UnregisterHost(host.second));
}

TEST_P(CudaTruthTest, AKernelReadsAndWritesPinnedMemoryInPlace) {
  CudaStream stream = gpu().Stream();
  const std::span<std::byte> host = gpu().Pinned(40);
  CUDA_OK(lab().LaunchAdd(host, 2, stream));
  gpu().Finish(stream);
  EXPECT_TRUE(AllAre(host, 42));
}

TEST_P(CudaTruthTest, RegisteringTwiceIsRefused) {
  const std::span<std::byte> host = gpu().Pinned(0);
  EXPECT_EQ(api().RegisterHost(host.data(), host.size()), device::kCudaAlreadyRegistered);
  EXPECT_EQ(api().RegisterHost(host.data() + host.size() / 2, host.size() / 2),
            device::kCudaAlreadyRegistered);
  bool registered = false;
  CUDA_OK(api().IsRegistered(host.data() + host.size() - 1, &registered));
  EXPECT_TRUE(registered);
}

TEST_P(CudaTruthTest, UnregisteringAnUnknownAddressIsRefused) {
  std::vector<std::byte> host(gpu().frame_bytes());
  EXPECT_EQ(api().UnregisterHost(host.data()), device::kCudaNotRegistered);
}

TEST_P(CudaTruthTest, MemoryMayBeRegisteredAgain) {
  const TwoAddresses host(gpu().frame_bytes());
  for (int i = 0; i < 2; ++i) {
    CUDA_OK(api().RegisterHost(host.first, gpu().frame_bytes()));
    CUDA_OK(api().UnregisterHost(host.first));
  }
  bool registered = true;
  CUDA_OK(api().IsRegistered(host.first, &registered));
  EXPECT_FALSE(registered);
}

TEST_P(CudaTruthTest, UnregisteringWaitsForRunningWork) {
  const TwoAddresses host(gpu().frame_bytes());
  CUDA_OK(api().RegisterHost(host.first, gpu().frame_bytes()));
  CUDA_OK(lab().LaunchGate(0, gpu().Stream()));
  const LateOpener opener(lab(), 0);
  CUDA_OK(api().UnregisterHost(host.first));
  EXPECT_TRUE(opener.opened());
}

TEST_P(CudaTruthTest, RegisteringDoesNotWaitForRunningWork) {
  CudaStream stream = gpu().Stream();
  CUDA_OK(lab().LaunchGate(0, stream));
  gpu().Pinned(0);
  EXPECT_EQ(QueryAfter(stream), kCudaNotReady);
  lab().Open(0);
}

TEST_P(CudaTruthTest, ACopyCrossesFrames) {
  const std::uint64_t bytes = gpu().frame_bytes();
  std::byte* addresses = gpu().Addresses(2 * bytes);
  gpu().Map(addresses, gpu().Frame());
  gpu().Map(addresses + bytes, gpu().Frame());
  CudaStream stream = gpu().Stream();
  CUDA_OK(api().Fill(addresses, 1, 2 * bytes, stream));
  gpu().CopyIn(addresses + bytes / 2, gpu().Pinned(2), stream);
  gpu().Finish(stream);
  EXPECT_THAT(gpu().Ends(addresses), ElementsAre(1, 2));
  EXPECT_THAT(gpu().Ends(addresses + bytes), ElementsAre(2, 1));
}

TEST_P(CudaTruthTest, ABatchCopiesAllAfterWhatTheStreamHas) {
  CudaStream stream = gpu().Stream();
  std::vector<std::byte*> addresses;
  std::vector<CudaCopy> copies;
  for (std::uint8_t i = 0; i < 8; ++i) {
    addresses.push_back(gpu().Mapped());
    CUDA_OK(api().Fill(addresses.back(), 99, gpu().frame_bytes(), stream));
    copies.push_back(
        {.to = addresses.back(), .from = gpu().Pinned(i).data(), .bytes = gpu().frame_bytes()});
  }
  CUDA_OK(lab().LaunchGate(0, stream));
  const CudaCode code = api().CopyBatch(copies, stream);
  EXPECT_EQ(QueryAfter(stream), kCudaNotReady);
  lab().Open(0);
  gpu().Finish(stream);
  if (code == device::kCudaNotSupported) {
    GTEST_SKIP() << "the driver has no batches of copies";
  }
  EXPECT_EQ(code, kCudaSuccess);
  for (int i = 0; i < 8; ++i) {
    EXPECT_THAT(gpu().Ends(addresses[static_cast<std::size_t>(i)]), ElementsAre(i, i));
  }
}

TEST_P(CudaTruthTest, AFillSetsItsBytesOnly) {
  CudaStream stream = gpu().Stream();
  std::byte* address = gpu().Mapped();
  const std::uint64_t bytes = gpu().frame_bytes();
  CUDA_OK(api().Fill(address, 1, bytes, stream));
  CUDA_OK(api().Fill(address + 1, 2, bytes - 2, stream));
  const std::span<std::byte> host = gpu().Pinned(0);
  gpu().CopyOut(host, address, stream);
  gpu().Finish(stream);
  EXPECT_EQ(host.front(), std::byte{1});
  EXPECT_TRUE(AllAre(host.subspan(1, bytes - 2), 2));
  EXPECT_EQ(host.back(), std::byte{1});
}

}  // namespace
}  // namespace sluice::testing
