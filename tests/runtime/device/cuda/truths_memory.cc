// Truths of physical memory and addresses.

#include "tests/runtime/device/cuda/driver_truths.h"

namespace sluice::testing {
namespace {

using device::CudaMemory;
using device::CudaStream;
using device::kCudaInvalidValue;
using device::kCudaNotReady;
using device::kCudaNotSupported;
using device::kCudaSuccess;
using ::testing::ElementsAre;

TEST_P(CudaTruthTest, AFrameHasTwoAddressesAtOnce) {
  const CudaMemory frame = gpu().Frame();
  std::byte* first = gpu().Addresses(gpu().frame_bytes());
  std::byte* second = gpu().Addresses(gpu().frame_bytes());
  gpu().Map(first, frame);
  gpu().Map(second, frame);
  CudaStream stream = gpu().Stream();
  CUDA_OK(api().Fill(first, 21, gpu().frame_bytes(), stream));
  CUDA_OK(lab().LaunchAdd({second, gpu().frame_bytes()}, 1, stream));
  CUDA_OK(lab().LaunchAdd({first, gpu().frame_bytes()}, 1, stream));
  gpu().Finish(stream);
  EXPECT_THAT(gpu().Ends(second), ElementsAre(23, 23));
}

TEST_P(CudaTruthTest, OneAddressOfAFrameOutlivesTheOther) {
  const CudaMemory frame = gpu().Frame();
  std::byte* first = gpu().Addresses(gpu().frame_bytes());
  std::byte* second = gpu().Addresses(gpu().frame_bytes());
  gpu().Map(first, frame);
  gpu().Map(second, frame);
  CudaStream stream = gpu().Stream();
  CUDA_OK(api().Fill(first, 31, gpu().frame_bytes(), stream));
  gpu().Finish(stream);
  gpu().Unmap(first);
  EXPECT_THAT(gpu().Ends(second), ElementsAre(31, 31));
}

TEST_P(CudaTruthTest, BytesStayInAFrameThatIsMappedElsewhere) {
  const CudaMemory frame = gpu().Frame();
  std::byte* first = gpu().Addresses(gpu().frame_bytes());
  std::byte* second = gpu().Addresses(gpu().frame_bytes());
  gpu().Map(first, frame);
  CudaStream stream = gpu().Stream();
  CUDA_OK(api().Fill(first, 41, gpu().frame_bytes(), stream));
  gpu().Finish(stream);
  gpu().Unmap(first);
  gpu().Map(second, frame);
  EXPECT_THAT(gpu().Ends(second), ElementsAre(41, 41));
}

TEST_P(CudaTruthTest, AnAddressTakesAnotherFrame) {
  const CudaMemory old_frame = gpu().Frame();
  const CudaMemory new_frame = gpu().Frame();
  std::byte* address = gpu().Addresses(gpu().frame_bytes());
  std::byte* other = gpu().Addresses(gpu().frame_bytes());
  gpu().Map(other, new_frame);
  CudaStream stream = gpu().Stream();
  gpu().Map(address, old_frame);
  CUDA_OK(api().Fill(address, 51, gpu().frame_bytes(), stream));
  CUDA_OK(api().Fill(other, 61, gpu().frame_bytes(), stream));
  gpu().Finish(stream);
  gpu().Unmap(address);
  gpu().Map(address, new_frame);
  EXPECT_THAT(gpu().Ends(address), ElementsAre(61, 61));
}

TEST_P(CudaTruthTest, MappedMemoryOutlivesItsRelease) {
  CudaMemory frame = 0;
  CUDA_OK(api().CreateMemory(0, gpu().frame_bytes(), &frame));
  std::byte* address = gpu().Addresses(gpu().frame_bytes());
  gpu().Map(address, frame);
  CUDA_OK(api().ReleaseMemory(frame));
  CudaStream stream = gpu().Stream();
  CUDA_OK(api().Fill(address, 71, gpu().frame_bytes(), stream));
  gpu().Finish(stream);
  EXPECT_THAT(gpu().Ends(address), ElementsAre(71, 71));
}

TEST_P(CudaTruthTest, APartOfAMemoryIsNeitherMappedNorUnmapped) {
  const std::uint64_t part = gpu().frame_bytes();
  CudaMemory memory = 0;
  CUDA_OK(api().CreateMemory(0, 2 * part, &memory));
  std::byte* address = gpu().Addresses(2 * part);
  EXPECT_EQ(api().MapMemory(address, part, memory), kCudaNotSupported);
  CUDA_OK(api().MapMemory(address, 2 * part, memory));
  EXPECT_EQ(api().AllowAccess(address, part, 0), kCudaInvalidValue);
  CUDA_OK(api().AllowAccess(address, 2 * part, 0));
  EXPECT_EQ(api().UnmapMemory(address, part), kCudaInvalidValue);
  CudaStream stream = gpu().Stream();
  CUDA_OK(api().Fill(address, 81, 2 * part, stream));
  gpu().Finish(stream);
  EXPECT_THAT(gpu().Ends(address + part), ElementsAre(81, 81));
  CUDA_OK(api().UnmapMemory(address, 2 * part));
  CUDA_OK(api().ReleaseMemory(memory));
}

TEST_P(CudaTruthTest, OneCallAllowsAndUnmapsNeighbours) {
  const std::uint64_t bytes = gpu().frame_bytes();
  std::byte* address = gpu().Addresses(2 * bytes);
  CUDA_OK(api().MapMemory(address, bytes, gpu().Frame()));
  CUDA_OK(api().MapMemory(address + bytes, bytes, gpu().Frame()));
  CUDA_OK(api().AllowAccess(address, 2 * bytes, 0));
  CudaStream stream = gpu().Stream();
  CUDA_OK(api().Fill(address, 91, 2 * bytes, stream));
  gpu().Finish(stream);
  EXPECT_THAT(gpu().Ends(address + bytes), ElementsAre(91, 91));
  CUDA_OK(api().UnmapMemory(address, 2 * bytes));
}

TEST_P(CudaTruthTest, AMappedAddressTakesNoSecondMapping) {
  std::byte* address = gpu().Mapped();
  EXPECT_NE(api().MapMemory(address, gpu().frame_bytes(), gpu().Frame()), kCudaSuccess);
  CUDA_OK(api().QueryEvent(gpu().Event()));
}

TEST_P(CudaTruthTest, AnUnmappedAddressIsNotUnmapped) {
  std::byte* address = gpu().Addresses(gpu().frame_bytes());
  EXPECT_EQ(api().UnmapMemory(address, gpu().frame_bytes()), kCudaInvalidValue);
  EXPECT_NE(api().AllowAccess(address, gpu().frame_bytes(), 0), kCudaSuccess);
}

TEST_P(CudaTruthTest, SizesBelowTheGranularityAreRefused) {
  const std::uint64_t half = gpu().frame_bytes() / 2;
  CudaMemory memory = 0;
  EXPECT_EQ(api().CreateMemory(0, half, &memory), kCudaInvalidValue);
  EXPECT_EQ(api().CreateMemory(0, 3 * half, &memory), kCudaInvalidValue);
  std::byte* address = gpu().Addresses(2 * gpu().frame_bytes());
  EXPECT_NE(api().MapMemory(address + half, gpu().frame_bytes(), gpu().Frame()), kCudaSuccess);
}

TEST_P(CudaTruthTest, TooMuchMemoryIsRefusedAndNothingElse) {
  std::uint64_t free_bytes = 0;
  std::uint64_t all_bytes = 0;
  CUDA_OK(api().FreeMemory(&free_bytes, &all_bytes));
  EXPECT_LE(free_bytes, all_bytes);
  const std::uint64_t frames = gpu().facts().memory_bytes / gpu().frame_bytes();
  CudaMemory memory = 0;
  EXPECT_EQ(api().CreateMemory(0, (frames + 1) * gpu().frame_bytes(), &memory),
            device::kCudaOutOfMemory);
  gpu().Mapped();
}

TEST_P(CudaTruthTest, MappingCallsDoNotWaitForRunningWork) {
  const std::uint64_t bytes = gpu().frame_bytes();
  CudaStream stream = gpu().Stream();
  std::byte* busy = gpu().Mapped();
  std::byte* address = gpu().Addresses(bytes);
  CUDA_OK(lab().LaunchGate(0, stream));
  CUDA_OK(api().Fill(busy, 1, bytes, stream));
  CudaMemory memory = 0;
  CUDA_OK(api().CreateMemory(0, bytes, &memory));
  CUDA_OK(api().MapMemory(address, bytes, memory));
  CUDA_OK(api().AllowAccess(address, bytes, 0));
  CUDA_OK(api().UnmapMemory(address, bytes));
  CUDA_OK(api().ReleaseMemory(memory));
  EXPECT_EQ(QueryAfter(stream), kCudaNotReady);
  lab().Open(0);
  gpu().Finish(stream);
}

}  // namespace
}  // namespace sluice::testing
