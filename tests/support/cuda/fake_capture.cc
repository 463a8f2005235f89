#include "tests/support/cuda/fake_capture.h"

#include <utility>

#include "tests/support/cuda/fake_state.h"

namespace sluice::testing {

using device::CudaCode;
using device::kCudaSuccess;

CudaCode FakeState::Enqueue(FakeContext& context, FakeStream& stream, std::vector<FakeItem> items) {
  if (FakeCapture* capture = stream.capture(); capture != nullptr) {
    if (capture->invalid.load()) {
      return device::kCudaCaptureInvalidated;
    }
    for (FakeItem& item : items) {
      capture->Add(std::move(item.work));
    }
    return kCudaSuccess;
  }
  if (open_captures_.load(std::memory_order_relaxed) > 0 && &stream == &context.legacy() &&
      context.CapturesBlockingStream()) {
    return kFakeCaptureImplicit;
  }
  context.Push(stream, std::move(items));
  return kCudaSuccess;
}

CudaCode FakeState::ForbidUnsafe() {
  const device::CudaCaptureMode mode = thread().mode;
  if (open_captures_.load(std::memory_order_relaxed) == 0 ||
      mode == device::CudaCaptureMode::kRelaxed) {
    return kCudaSuccess;
  }
  CudaCode code = kCudaSuccess;
  const base::MutexLock lock(mutex_);
  for (FakeCapture& capture : captures_) {
    const bool own = capture.thread == std::this_thread::get_id();
    const bool of_others = capture.global && mode == device::CudaCaptureMode::kGlobal;
    if (!capture.ended.load() && (own || of_others)) {
      capture.invalid.store(true);
      code = device::kCudaCaptureUnsupported;
    }
  }
  return code;
}

FakeCapture& FakeState::MakeCapture(FakeStream& origin, bool global) {
  const base::MutexLock lock(mutex_);
  FakeCapture& capture = captures_.emplace_back(origin, global);
  {
    const base::MutexLock capture_lock(capture.mutex);
    capture.streams.push_back(&origin);
  }
  origin.SetCapture(&capture);
  open_captures_.fetch_add(1);
  return capture;
}

void FakeState::EndCapture(FakeCapture& capture) {
  const base::MutexLock lock(capture.mutex);
  for (FakeStream* stream : capture.streams) {
    stream->SetCapture(nullptr);
  }
  capture.ended.store(true);
  open_captures_.fetch_sub(1);
}

CudaCode FakeState::JoinCapture(FakeStream& stream, FakeCapture* capture) {
  FakeCapture* own = stream.capture();
  if (capture == nullptr) {
    own->invalid.store(true);
    return kFakeCaptureIsolation;
  }
  if (capture->ended.load()) {
    return kFakeCapturedEvent;
  }
  if (own != nullptr && own != capture) {
    return kFakeCaptureMerge;
  }
  if (capture->invalid.load()) {
    return device::kCudaCaptureInvalidated;
  }
  if (own == nullptr) {
    const base::MutexLock lock(capture->mutex);
    capture->streams.push_back(&stream);
    stream.SetCapture(capture);
  }
  return kCudaSuccess;
}

FakeGraph& FakeState::MakeGraph(std::vector<FakeWork> work) {
  const base::MutexLock lock(mutex_);
  FakeGraph& graph = graphs_.emplace_back();
  graph.work = std::move(work);
  return graph;
}

}  // namespace sluice::testing
