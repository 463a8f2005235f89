// Truths of errors that end a context. Each of these needs a process of its own on hardware.

#include "tests/runtime/device/cuda/driver_truths.h"

namespace sluice::testing {
namespace {

using device::CudaCode;
using device::CudaEvent;
using device::CudaStream;
using device::kCudaIllegalAddress;
using device::kCudaNotReady;
using device::kCudaSuccess;

TEST_P(CudaFatalTruthTest, AKernelAtAnUnmappedAddressEndsTheContext) {
  CudaStream stream = gpu().Stream();
  std::byte* address = gpu().Addresses(gpu().frame_bytes());
  CUDA_OK(lab().LaunchAdd({address, gpu().frame_bytes()}, 1, stream));
  EXPECT_EQ(api().SynchronizeStream(stream), kCudaIllegalAddress);
  EXPECT_EQ(api().SynchronizeStream(stream), kCudaIllegalAddress);
}

TEST_P(CudaFatalTruthTest, AKernelWithoutAccessEndsTheContext) {
  CudaStream stream = gpu().Stream();
  std::byte* address = gpu().Addresses(gpu().frame_bytes());
  CUDA_OK(api().MapMemory(address, gpu().frame_bytes(), gpu().Frame()));
  CUDA_OK(lab().LaunchAdd({address, gpu().frame_bytes()}, 1, stream));
  EXPECT_EQ(api().SynchronizeStream(stream), kCudaIllegalAddress);
}

// The driver may refuse the call, or let the copy fail.
TEST_P(CudaFatalTruthTest, ACopyWithoutAccessFails) {
  CudaStream stream = gpu().Stream();
  std::byte* address = gpu().Addresses(gpu().frame_bytes());
  const std::span<std::byte> host = gpu().Pinned(1);
  CUDA_OK(api().MapMemory(address, gpu().frame_bytes(), gpu().Frame()));
  CudaCode code = api().CopyIn({.to = address, .from = host.data(), .bytes = host.size()}, stream);
  if (code == kCudaSuccess) {
    code = api().SynchronizeStream(stream);
  }
  EXPECT_NE(code, kCudaSuccess);
  EXPECT_TRUE(api().ErrorName(code).starts_with("CUDA_ERROR_")) << code;
}

TEST_P(CudaFatalTruthTest, ACopyToAnUnmappedAddressFails) {
  CudaStream stream = gpu().Stream();
  std::byte* address = gpu().Addresses(gpu().frame_bytes());
  const std::span<std::byte> host = gpu().Pinned(1);
  CudaCode code = api().CopyIn({.to = address, .from = host.data(), .bytes = host.size()}, stream);
  if (code == kCudaSuccess) {
    code = api().SynchronizeStream(stream);
  }
  EXPECT_NE(code, kCudaSuccess);
}

TEST_P(CudaFatalTruthTest, ALateErrorComesBackFromAnyCall) {
  CudaStream stream = gpu().Stream();
  CudaStream other = gpu().Stream();
  CudaEvent event = gpu().Event();
  CudaEvent unrelated = gpu().Event();
  std::byte* address = gpu().Addresses(gpu().frame_bytes());
  CUDA_OK(lab().LaunchAdd({address, gpu().frame_bytes()}, 1, stream));
  api().RecordEvent(event, stream);
  EXPECT_EQ(AwaitEvent(event), kCudaIllegalAddress);
  EXPECT_EQ(api().QueryEvent(unrelated), kCudaIllegalAddress);
  EXPECT_EQ(api().RecordEvent(unrelated, other), kCudaIllegalAddress);
  EXPECT_EQ(api().SynchronizeStream(other), kCudaIllegalAddress);
}

TEST_P(CudaFatalTruthTest, AnUnmapUnderQueuedWorkEndsTheContext) {
  CudaStream stream = gpu().Stream();
  std::byte* address = gpu().Mapped();
  CUDA_OK(lab().LaunchGate(0, stream));
  CUDA_OK(lab().LaunchAdd({address, gpu().frame_bytes()}, 1, stream));
  gpu().Unmap(address);
  lab().Open(0);
  EXPECT_EQ(api().SynchronizeStream(stream), kCudaIllegalAddress);
}

TEST_P(CudaFatalTruthTest, AReplayWhileNothingIsMappedEndsTheContext) {
  CudaStream stream = gpu().Stream();
  CudaEvent event = gpu().Event();
  std::byte* address = gpu().Mapped();
  const std::span<std::byte> host = gpu().Pinned(1);
  CUDA_OK(lab().BeginCapture(stream, true));
  gpu().CopyIn(address, host, stream);
  CudaGraph graph = nullptr;
  CUDA_OK(lab().EndCapture(stream, &graph));
  gpu().Unmap(address);
  CUDA_OK(lab().LaunchGraph(graph, stream));
  EXPECT_EQ(api().SynchronizeStream(stream), kCudaIllegalAddress);
  EXPECT_EQ(api().QueryEvent(event), kCudaIllegalAddress);
}

TEST_P(CudaFatalTruthTest, AnErrorEndsTheWorkOfAllStreams) {
  CudaStream stream = gpu().Stream();
  CudaStream other = gpu().Stream();
  CudaEvent event = gpu().Event();
  std::byte* address = gpu().Addresses(gpu().frame_bytes());
  CUDA_OK(lab().LaunchAdd({address, gpu().frame_bytes()}, 1, stream));
  // The gate is never opened.
  lab().LaunchGate(0, other);
  api().RecordEvent(event, other);
  EXPECT_EQ(AwaitEvent(event), kCudaIllegalAddress);
}

}  // namespace
}  // namespace sluice::testing
