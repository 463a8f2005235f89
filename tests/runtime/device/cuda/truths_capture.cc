// Truths of captures and graphs.

#include <functional>
#include <string>
#include <vector>

#include "tests/runtime/device/cuda/driver_truths.h"

namespace sluice::testing {
namespace {

using device::CudaEvent;
using device::CudaMemory;
using device::CudaStream;
using device::kCudaCaptureInvalidated;
using device::kCudaCaptureUnsupported;
using device::kCudaInvalidValue;
using device::kCudaNotReady;
using device::kCudaSuccess;
using ::testing::ElementsAre;

TEST_P(CudaTruthTest, CapturedWorkRunsWhenItsGraphIsLaunched) {
  CudaStream stream = gpu().Stream();
  std::byte* address = gpu().Mapped();
  CUDA_OK(api().Fill(address, 1, gpu().frame_bytes(), stream));
  CUDA_OK(lab().BeginCapture(stream, true));
  CUDA_OK(lab().LaunchAdd({address, gpu().frame_bytes()}, 1, stream));
  bool capturing = false;
  CUDA_OK(api().IsCapturing(stream, &capturing));
  EXPECT_TRUE(capturing);
  CudaGraph graph = nullptr;
  CUDA_OK(lab().EndCapture(stream, &graph));
  CUDA_OK(api().IsCapturing(stream, &capturing));
  EXPECT_FALSE(capturing);
  gpu().Finish(stream);
  EXPECT_THAT(gpu().Ends(address), ElementsAre(1, 1));
  CUDA_OK(lab().LaunchGraph(graph, stream));
  CUDA_OK(lab().LaunchGraph(graph, stream));
  gpu().Finish(stream);
  EXPECT_THAT(gpu().Ends(address), ElementsAre(3, 3));
  CUDA_OK(lab().DestroyGraph(graph));
}

TEST_P(CudaTruthTest, AReplayReachesTheFrameThatIsMappedThen) {
  const std::uint64_t bytes = gpu().frame_bytes();
  const std::vector<CudaMemory> frames = {gpu().Frame(), gpu().Frame()};
  std::byte* address = gpu().Addresses(bytes);
  const std::vector<std::byte*> views = {gpu().Addresses(bytes), gpu().Addresses(bytes)};
  gpu().Map(views[0], frames[0]);
  gpu().Map(views[1], frames[1]);
  const std::span<std::byte> from = gpu().Pinned(50);
  const std::span<std::byte> to = gpu().Pinned(0);
  CudaStream stream = gpu().Stream();
  gpu().Map(address, frames[0]);
  std::byte* const other = gpu().Mapped();
  CUDA_OK(api().Fill(other, 70, bytes, stream));
  const std::vector<std::function<void()>> nodes = {
      [&] {
        CUDA_OK(lab().LaunchAdd({address, bytes}, 1, stream));
      },
      [&] { gpu().CopyIn(address, from, stream); },
      [&] { CUDA_OK(api().Fill(address, 60, bytes, stream)); },
      [&] { gpu().CopyOut(to, address, stream); },
      [&] {
        CUDA_OK(lab().CopyWithin(address, {other, bytes}, stream));
      }};
  const std::vector<std::vector<int>> wanted = {{11, 21}, {50, 50}, {60, 60}, {10, 20}, {70, 70}};
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    SCOPED_TRACE("node " + std::to_string(node));
    CUDA_OK(lab().BeginCapture(stream, true));
    nodes[node]();
    CudaGraph graph = nullptr;
    CUDA_OK(lab().EndCapture(stream, &graph));
    CUDA_OK(api().Fill(views[0], 10, bytes, stream));
    CUDA_OK(api().Fill(views[1], 20, bytes, stream));
    std::vector<int> seen_out;
    for (std::size_t frame = 0; frame < 2; ++frame) {
      gpu().Finish(stream);
      gpu().Unmap(address);
      gpu().Map(address, frames[frame]);
      CUDA_OK(lab().LaunchGraph(graph, stream));
      gpu().Finish(stream);
      seen_out.push_back(std::to_integer<int>(to.front()));
    }
    const bool is_out = node == 3;
    const std::vector<int> seen_in = {gpu().Ends(views[0])[0], gpu().Ends(views[1])[1]};
    EXPECT_EQ(is_out ? seen_out : seen_in, wanted[node]);
    CUDA_OK(lab().DestroyGraph(graph));
  }
}

TEST_P(CudaTruthTest, KernelsAreCapturedBeforeTheirAddressIsMapped) {
  std::byte* address = gpu().Addresses(gpu().frame_bytes());
  CudaStream stream = gpu().Stream();
  CUDA_OK(lab().BeginCapture(stream, true));
  CUDA_OK(lab().LaunchAdd({address, gpu().frame_bytes()}, 1, stream));
  CudaGraph graph = nullptr;
  CUDA_OK(lab().EndCapture(stream, &graph));
  gpu().Map(address, gpu().Frame());
  CUDA_OK(api().Fill(address, 70, gpu().frame_bytes(), stream));
  CUDA_OK(lab().LaunchGraph(graph, stream));
  gpu().Finish(stream);
  EXPECT_THAT(gpu().Ends(address), ElementsAre(71, 71));
  CUDA_OK(lab().DestroyGraph(graph));
}

TEST_P(CudaTruthTest, ACopyWithinTheDeviceReadsTheFrameThatIsMappedAtItsReplay) {
  const std::uint64_t bytes = gpu().frame_bytes();
  std::byte* address = gpu().Mapped();
  std::byte* to = gpu().Mapped();
  CudaStream stream = gpu().Stream();
  CUDA_OK(lab().BeginCapture(stream, true));
  CUDA_OK(lab().CopyWithin(to, {address, bytes}, stream));
  CudaGraph graph = nullptr;
  CUDA_OK(lab().EndCapture(stream, &graph));
  gpu().Unmap(address);
  gpu().Map(address, gpu().Frame());
  CUDA_OK(api().Fill(address, 33, bytes, stream));
  CUDA_OK(lab().LaunchGraph(graph, stream));
  gpu().Finish(stream);
  EXPECT_THAT(gpu().Ends(to), ElementsAre(33, 33));
  CUDA_OK(lab().DestroyGraph(graph));
}

TEST_P(CudaTruthTest, CopiesAreNotCapturedBeforeTheirAddressIsMapped) {
  std::byte* address = gpu().Addresses(gpu().frame_bytes());
  CudaStream stream = gpu().Stream();
  const std::span<std::byte> host = gpu().Pinned(1);
  CUDA_OK(lab().BeginCapture(stream, true));
  EXPECT_EQ(api().CopyIn({.to = address, .from = host.data(), .bytes = host.size()}, stream),
            kCudaInvalidValue);
  CudaGraph graph = nullptr;
  CUDA_OK(lab().EndCapture(stream, &graph));
  CUDA_OK(lab().DestroyGraph(graph));
}

TEST_P(CudaTruthTest, AnEventTakesTwoStreamsIntoOneCapture) {
  const std::uint64_t bytes = gpu().frame_bytes();
  CudaStream first = gpu().Stream();
  CudaStream second = gpu().Stream();
  std::byte* address = gpu().Mapped();
  CudaEvent forked = gpu().Event();
  CudaEvent joined = gpu().Event();
  CUDA_OK(lab().BeginCapture(first, true));
  CUDA_OK(api().Fill(address, 80, bytes, first));
  CUDA_OK(api().RecordEvent(forked, first));
  CUDA_OK(api().WaitEvent(second, forked));
  bool capturing = false;
  CUDA_OK(api().IsCapturing(second, &capturing));
  EXPECT_TRUE(capturing);
  CUDA_OK(lab().LaunchAdd({address, bytes}, 1, second));
  CUDA_OK(api().RecordEvent(joined, second));
  CUDA_OK(api().WaitEvent(first, joined));
  CUDA_OK(lab().LaunchAdd({address, bytes}, 1, first));
  CudaGraph graph = nullptr;
  CUDA_OK(lab().EndCapture(first, &graph));
  CUDA_OK(api().IsCapturing(second, &capturing));
  EXPECT_FALSE(capturing);
  CUDA_OK(lab().LaunchGraph(graph, first));
  gpu().Finish(first);
  EXPECT_THAT(gpu().Ends(address), ElementsAre(82, 82));
  CUDA_OK(lab().DestroyGraph(graph));
}

TEST_P(CudaTruthTest, TheEventOfACaptureIsNotQueried) {
  CudaStream stream = gpu().Stream();
  CudaEvent event = gpu().Event();
  CUDA_OK(lab().BeginCapture(stream, true));
  CUDA_OK(api().RecordEvent(event, stream));
  const device::CudaCode code = api().QueryEvent(event);
  EXPECT_NE(code, kCudaSuccess);
  EXPECT_NE(code, kCudaNotReady);
  CudaGraph graph = nullptr;
  lab().EndCapture(stream, &graph);
  CUDA_OK(api().RecordEvent(event, stream));
  gpu().Finish(stream);
  CUDA_OK(api().QueryEvent(event));
}

TEST_P(CudaTruthTest, SynchronisingAStreamEndsItsCapture) {
  CudaStream stream = gpu().Stream();
  CUDA_OK(lab().BeginCapture(stream, true));
  EXPECT_EQ(api().SynchronizeStream(stream), kCudaCaptureUnsupported);
  CudaGraph graph = nullptr;
  EXPECT_EQ(lab().EndCapture(stream, &graph), kCudaCaptureInvalidated);
  EXPECT_EQ(graph, nullptr);
  gpu().Finish(stream);
}

TEST_P(CudaTruthTest, ACaptureDoesNotWaitForWorkOutsideIt) {
  CudaStream stream = gpu().Stream();
  CudaStream outside = gpu().Stream();
  CudaEvent event = gpu().Event();
  CUDA_OK(api().RecordEvent(event, outside));
  CUDA_OK(lab().BeginCapture(stream, true));
  EXPECT_NE(api().WaitEvent(stream, event), kCudaSuccess);
  CudaGraph graph = nullptr;
  EXPECT_NE(lab().EndCapture(stream, &graph), kCudaSuccess);
}

TEST_P(CudaTruthTest, TheLegacyStreamIsNotCaptured) {
  EXPECT_EQ(lab().BeginCapture(device::kCudaLegacyStream, true), kCudaCaptureUnsupported);
  gpu().Finish(device::kCudaLegacyStream);
}

TEST_P(CudaTruthTest, AGlobalCaptureForbidsOtherThreadsToQuery) {
  CudaStream stream = gpu().Stream();
  CudaEvent event = gpu().Event();
  CUDA_OK(lab().BeginCapture(stream, true));
  OnAnotherThread(api(), [&] { EXPECT_EQ(api().QueryEvent(event), kCudaCaptureUnsupported); });
  CudaGraph graph = nullptr;
  EXPECT_EQ(lab().EndCapture(stream, &graph), kCudaCaptureInvalidated);
}

TEST_P(CudaTruthTest, ALocalCaptureLetsOtherThreadsQuery) {
  CudaStream stream = gpu().Stream();
  CudaEvent event = gpu().Event();
  CUDA_OK(lab().BeginCapture(stream, false));
  OnAnotherThread(api(), [&] { CUDA_OK(api().QueryEvent(event)); });
  CudaGraph graph = nullptr;
  CUDA_OK(lab().EndCapture(stream, &graph));
  CUDA_OK(lab().DestroyGraph(graph));
}

// All that the CUDA device does on threads of its own.
TEST_P(CudaTruthTest, ARelaxedThreadWorksBesideAGlobalCapture) {
  const std::uint64_t bytes = gpu().frame_bytes();
  CudaStream captured = gpu().Stream();
  CudaStream stream = gpu().Stream();
  CudaEvent event = gpu().Event();
  std::byte* address = gpu().Addresses(bytes);
  const std::span<std::byte> host = gpu().Pinned(90);
  const std::span<std::byte> more = gpu().Pinned(0);
  CUDA_OK(lab().BeginCapture(captured, true));
  OnAnotherThread(api(), [&] {
    device::CudaCaptureMode mode = device::CudaCaptureMode::kRelaxed;
    CUDA_OK(api().ExchangeCaptureMode(&mode));
    EXPECT_EQ(mode, device::CudaCaptureMode::kGlobal) << "a thread's first mode";
    gpu().Map(address, gpu().Frame());
    gpu().CopyIn(address, host, stream);
    CUDA_OK(api().RecordEvent(event, stream));
    EXPECT_EQ(AwaitEvent(event), kCudaSuccess);
    gpu().Unmap(address);
    CUDA_OK(api().UnregisterHost(more.data()));
    CUDA_OK(api().RegisterHost(more.data(), more.size()));
  });
  CudaGraph graph = nullptr;
  CUDA_OK(lab().EndCapture(captured, &graph));
  CUDA_OK(lab().DestroyGraph(graph));
}

TEST_P(CudaTruthTest, ACaptureForbidsItsOwnThreadToQuery) {
  CudaEvent event = gpu().Event();
  for (const bool global : {true, false}) {
    CudaStream stream = gpu().Stream();
    CUDA_OK(lab().BeginCapture(stream, global));
    EXPECT_EQ(api().QueryEvent(event), kCudaCaptureUnsupported);
    CudaGraph graph = nullptr;
    EXPECT_EQ(lab().EndCapture(stream, &graph), kCudaCaptureInvalidated);
  }
}

// All that the CUDA device does on a user's thread.
TEST_P(CudaTruthTest, ACapturingThreadThatIsRelaxedWorksBesideItsCapture) {
  const std::uint64_t bytes = gpu().frame_bytes();
  const std::span<std::byte> more = gpu().Pinned(0);
  for (const bool global : {true, false}) {
    CudaStream captured = gpu().Stream();
    CUDA_OK(lab().BeginCapture(captured, global));
    device::CudaCaptureMode mode = device::CudaCaptureMode::kRelaxed;
    CUDA_OK(api().ExchangeCaptureMode(&mode));
    CudaEvent event = gpu().Event();
    std::byte* address = gpu().Mapped();
    CudaStream stream = gpu().Stream();
    CUDA_OK(api().Fill(address, 1, bytes, stream));
    CUDA_OK(api().RecordEvent(event, stream));
    EXPECT_EQ(AwaitEvent(event), kCudaSuccess);
    CUDA_OK(api().UnregisterHost(more.data()));
    CUDA_OK(api().RegisterHost(more.data(), more.size()));
    gpu().Unmap(address);
    CUDA_OK(api().ExchangeCaptureMode(&mode));
    EXPECT_EQ(mode, device::CudaCaptureMode::kRelaxed);
    CudaGraph graph = nullptr;
    CUDA_OK(lab().EndCapture(captured, &graph));
    CUDA_OK(lab().DestroyGraph(graph));
  }
}

}  // namespace
}  // namespace sluice::testing
