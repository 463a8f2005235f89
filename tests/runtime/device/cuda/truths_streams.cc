// Truths of contexts, streams and events.

#include "tests/runtime/device/cuda/driver_truths.h"

namespace sluice::testing {
namespace {

using device::CudaEvent;
using device::CudaStream;
using device::kCudaLegacyStream;
using device::kCudaNotReady;
using device::kCudaSuccess;
using ::testing::ElementsAre;

TEST_P(CudaTruthTest, CallsNeedAContextOnTheirThread) {
  std::thread([&] {
    CudaStream stream = nullptr;
    EXPECT_EQ(api().CreateStream(&stream), device::kCudaInvalidContext);
    EXPECT_EQ(api().PopContext(), device::kCudaInvalidContext);
  }).join();
}

TEST_P(CudaTruthTest, PopBringsBackTheContextBefore) {
  device::CudaContext context = nullptr;
  CUDA_OK(api().RetainContext(0, &context));
  CUDA_OK(api().PushContext(context));
  CUDA_OK(api().PopContext());
  gpu().Stream();
  CUDA_OK(api().ReleaseContext(0));
}

TEST_P(CudaTruthTest, AStreamServesEveryThread) {
  CudaStream stream = gpu().Stream();
  std::byte* address = gpu().Mapped();
  OnAnotherThread(api(), [&] { CUDA_OK(api().Fill(address, 5, gpu().frame_bytes(), stream)); });
  gpu().Finish(stream);
  EXPECT_THAT(gpu().Ends(address), ElementsAre(5, 5));
}

TEST_P(CudaTruthTest, WorkOfAStreamRunsInOrder) {
  CudaStream stream = gpu().Stream();
  std::byte* address = gpu().Mapped();
  for (int i = 0; i < 20; ++i) {
    CUDA_OK(api().Fill(address, static_cast<std::uint8_t>(i), gpu().frame_bytes(), stream));
    CUDA_OK(lab().LaunchAdd({address, gpu().frame_bytes()}, 100, stream));
  }
  gpu().Finish(stream);
  EXPECT_THAT(gpu().Ends(address), ElementsAre(119, 119));
}

TEST_P(CudaTruthTest, AnEventWithoutARecordIsReady) {
  CudaEvent event = gpu().Event();
  CUDA_OK(api().QueryEvent(event));
  CudaStream stream = gpu().Stream();
  CUDA_OK(api().WaitEvent(stream, event));
  gpu().Finish(stream);
}

TEST_P(CudaTruthTest, AnEventIsReadyAfterTheWorkBeforeIt) {
  CudaStream stream = gpu().Stream();
  CudaEvent event = gpu().Event();
  CUDA_OK(lab().LaunchGate(0, stream));
  CUDA_OK(api().RecordEvent(event, stream));
  EXPECT_EQ(api().QueryEvent(event), kCudaNotReady);
  lab().Open(0);
  EXPECT_EQ(AwaitEvent(event), kCudaSuccess);
}

TEST_P(CudaTruthTest, AnEventDoesNotWaitForLaterWork) {
  CudaStream stream = gpu().Stream();
  CudaEvent event = gpu().Event();
  CUDA_OK(api().RecordEvent(event, stream));
  CUDA_OK(lab().LaunchGate(0, stream));
  EXPECT_EQ(AwaitEvent(event), kCudaSuccess);
  EXPECT_EQ(QueryAfter(stream), kCudaNotReady);
  lab().Open(0);
}

TEST_P(CudaTruthTest, AStreamWaitsForAnotherStreamsEvent) {
  CudaStream first = gpu().Stream();
  CudaStream second = gpu().Stream();
  std::byte* address = gpu().Mapped();
  CudaEvent filled = gpu().Event();
  CUDA_OK(lab().LaunchGate(0, first));
  CUDA_OK(api().Fill(address, 9, gpu().frame_bytes(), first));
  CUDA_OK(api().RecordEvent(filled, first));
  CUDA_OK(api().WaitEvent(second, filled));
  CUDA_OK(lab().LaunchAdd({address, gpu().frame_bytes()}, 1, second));
  EXPECT_EQ(QueryAfter(second), kCudaNotReady);
  lab().Open(0);
  gpu().Finish(second);
  EXPECT_THAT(gpu().Ends(address), ElementsAre(10, 10));
}

TEST_P(CudaTruthTest, AWaitIsForTheRecordAtTheCall) {
  CudaStream first = gpu().Stream();
  CudaStream second = gpu().Stream();
  CudaEvent event = gpu().Event();
  CUDA_OK(api().RecordEvent(event, first));
  CUDA_OK(api().WaitEvent(second, event));
  CUDA_OK(lab().LaunchGate(0, first));
  CUDA_OK(api().RecordEvent(event, first));
  gpu().Finish(second);
  EXPECT_EQ(api().QueryEvent(event), kCudaNotReady);
  lab().Open(0);
}

TEST_P(CudaTruthTest, AnEventMayBeDestroyedBeforeItsWaitIsOver) {
  CudaStream first = gpu().Stream();
  CudaStream second = gpu().Stream();
  CudaEvent event = nullptr;
  CUDA_OK(api().CreateEvent(&event));
  CUDA_OK(lab().LaunchGate(0, first));
  CUDA_OK(api().RecordEvent(event, first));
  CUDA_OK(api().WaitEvent(second, event));
  CUDA_OK(api().DestroyEvent(event));
  EXPECT_EQ(QueryAfter(second), kCudaNotReady);
  lab().Open(0);
  gpu().Finish(second);
}

TEST_P(CudaTruthTest, ADestroyedStreamDoesItsWork) {
  CudaStream stream = nullptr;
  CUDA_OK(api().CreateStream(&stream));
  std::byte* address = gpu().Mapped();
  CudaEvent filled = gpu().Event();
  CUDA_OK(lab().LaunchGate(0, stream));
  CUDA_OK(api().Fill(address, 3, gpu().frame_bytes(), stream));
  CUDA_OK(api().RecordEvent(filled, stream));
  CUDA_OK(api().DestroyStream(stream));
  EXPECT_EQ(api().QueryEvent(filled), kCudaNotReady);
  lab().Open(0);
  EXPECT_EQ(AwaitEvent(filled), kCudaSuccess);
  EXPECT_THAT(gpu().Ends(address), ElementsAre(3, 3));
}

TEST_P(CudaTruthTest, StreamsDoNotWaitForTheLegacyStream) {
  CudaStream stream = gpu().Stream();
  CUDA_OK(lab().LaunchGate(0, kCudaLegacyStream));
  gpu().Finish(stream);
  EXPECT_EQ(QueryAfter(kCudaLegacyStream), kCudaNotReady);
  CUDA_OK(lab().LaunchGate(1, stream));
  lab().Open(0);
  gpu().Finish(kCudaLegacyStream);
  EXPECT_EQ(QueryAfter(stream), kCudaNotReady);
  lab().Open(1);
}

TEST_P(CudaTruthTest, TheLegacyStreamAndPerThreadStreamsWaitForEachOther) {
  CudaStream own = device::CudaPerThreadStream();
  CUDA_OK(lab().LaunchGate(0, own));
  EXPECT_EQ(QueryAfter(kCudaLegacyStream), kCudaNotReady);
  lab().Open(0);
  gpu().Finish(kCudaLegacyStream);
  CUDA_OK(lab().LaunchGate(1, kCudaLegacyStream));
  EXPECT_EQ(QueryAfter(own), kCudaNotReady);
  lab().Open(1);
  gpu().Finish(own);
}

TEST_P(CudaTruthTest, EachThreadHasAStreamOfItsOwn) {
  CUDA_OK(lab().LaunchGate(0, device::CudaPerThreadStream()));
  OnAnotherThread(api(), [&] { gpu().Finish(device::CudaPerThreadStream()); });
  EXPECT_EQ(QueryAfter(device::CudaPerThreadStream()), kCudaNotReady);
  lab().Open(0);
  gpu().Finish(device::CudaPerThreadStream());
}

}  // namespace
}  // namespace sluice::testing
