// Streams and events of the fake driver.

#include <algorithm>

#include "tests/support/cuda/fake_driver.h"

namespace sluice::testing {

using device::CudaCode;
using device::CudaEvent;
using device::CudaStream;
using device::kCudaSuccess;

CudaCode FakeDriver::CreateStream(CudaStream* stream) {
  FakeContext* context = nullptr;
  const CudaCode code = state_.Begin(FakeEntry::kCreateStream, &context);
  if (code == kCudaSuccess) {
    *stream = reinterpret_cast<CudaStream>(&context->MakeStream(false, true));
  }
  return code;
}

CudaCode FakeDriver::DestroyStream(CudaStream stream) {
  FakeContext* context = nullptr;
  const CudaCode code = state_.Begin(FakeEntry::kDestroyStream, &context);
  if (code != kCudaSuccess) {
    return code;
  }
  FakeStream* found = state_.Find(*context, stream);
  if (found == nullptr || !found->options().of_user) {
    return kFakeInvalidHandle;
  }
  found->Close();
  return kCudaSuccess;
}

CudaCode FakeDriver::SynchronizeStream(CudaStream stream) {
  FakeContext* context = nullptr;
  const CudaCode code = state_.BeginUnsafe(FakeEntry::kSynchronizeStream, &context);
  if (code != kCudaSuccess) {
    return code;
  }
  FakeStream* found = state_.Find(*context, stream);
  if (found == nullptr) {
    return kFakeInvalidHandle;
  }
  if (FakeCapture* capture = found->capture(); capture != nullptr) {
    capture->invalid.store(true);
    return device::kCudaCaptureUnsupported;
  }
  context->Push(*found, {});
  found->Mark().Wait();
  return context->Error();
}

CudaCode FakeDriver::WaitEvent(CudaStream stream, CudaEvent event) {
  FakeContext* context = nullptr;
  const CudaCode code = state_.Begin(FakeEntry::kWaitEvent, &context);
  if (code != kCudaSuccess) {
    return code;
  }
  FakeStream* found = state_.Find(*context, stream);
  FakeEvent* waited = FakeState::Find(event);
  if (found == nullptr || waited == nullptr) {
    return kFakeInvalidHandle;
  }
  FakeCapture* capture = waited->capture.load();
  if (capture != nullptr || found->capture() != nullptr) {
    return state_.JoinCapture(*found, capture);
  }
  const FakeFlag* last = waited->last.load(std::memory_order_acquire);
  if (last != nullptr) {
    context->Push(*found, {{.wait = last}});
  }
  return kCudaSuccess;
}

CudaCode FakeDriver::IsCapturing(CudaStream stream, bool* capturing) {
  FakeContext* context = nullptr;
  const CudaCode code = state_.Begin(FakeEntry::kIsCapturing, &context);
  if (code != kCudaSuccess) {
    return code;
  }
  FakeStream* found = state_.Find(*context, stream);
  if (found == nullptr) {
    return kFakeInvalidHandle;
  }
  if (found == &context->legacy() && context->CapturesBlockingStream()) {
    return kFakeCaptureImplicit;
  }
  *capturing = found->capture() != nullptr;
  return kCudaSuccess;
}

CudaCode FakeDriver::CreateEvent(CudaEvent* event) {
  FakeContext* context = nullptr;
  const CudaCode code = state_.Begin(FakeEntry::kCreateEvent, &context);
  if (code == kCudaSuccess) {
    *event = reinterpret_cast<CudaEvent>(&state_.MakeEvent());
  }
  return code;
}

CudaCode FakeDriver::DestroyEvent(CudaEvent event) {
  FakeContext* context = nullptr;
  const CudaCode code = state_.Begin(FakeEntry::kDestroyEvent, &context);
  if (code != kCudaSuccess) {
    return code;
  }
  FakeEvent* found = FakeState::Find(event);
  if (found == nullptr) {
    return kFakeInvalidHandle;
  }
  found->open.store(false);
  return kCudaSuccess;
}

CudaCode FakeDriver::RecordEvent(CudaEvent event, CudaStream stream) {
  FakeContext* context = nullptr;
  const CudaCode code = state_.Begin(FakeEntry::kRecordEvent, &context);
  if (code != kCudaSuccess) {
    return code;
  }
  FakeStream* found = state_.Find(*context, stream);
  FakeEvent* recorded = FakeState::Find(event);
  if (found == nullptr || recorded == nullptr) {
    return kFakeInvalidHandle;
  }
  if (FakeCapture* capture = found->capture(); capture != nullptr) {
    recorded->capture.store(capture);
    return capture->invalid.load() ? device::kCudaCaptureInvalidated : kCudaSuccess;
  }
  const base::MutexLock lock(recorded->mutex);
  FakeFlag* flag = &recorded->records.emplace_back();
  context->Push(*found, {{.done = flag}});
  recorded->capture.store(nullptr);
  recorded->last.store(flag, std::memory_order_release);
  return kCudaSuccess;
}

CudaCode FakeDriver::QueryEvent(CudaEvent event) {
  FakeContext* context = nullptr;
  const CudaCode code = state_.Begin(FakeEntry::kQueryEvent, &context);
  if (code != kCudaSuccess) {
    return code;
  }
  FakeEvent* found = FakeState::Find(event);
  if (found == nullptr) {
    return kFakeInvalidHandle;
  }
  if (FakeCapture* capture = found->capture.load(); capture != nullptr) {
    capture->invalid.store(true);
    return kFakeCapturedEvent;
  }
  if (const CudaCode forbidden = state_.ForbidUnsafe(); forbidden != kCudaSuccess) {
    return forbidden;
  }
  const FakeFlag* last = found->last.load(std::memory_order_acquire);
  if (last != nullptr && !last->IsSet()) {
    return device::kCudaNotReady;
  }
  return context->Error();
}

}  // namespace sluice::testing
