#include "tests/runtime/device/cuda/driver_truths.h"

#include <chrono>

namespace sluice::testing {

using device::CudaCode;
using device::CudaEvent;
using device::CudaStream;

CudaCode CudaTruthTest::QueryAfter(CudaStream stream) {
  CudaEvent event = gpu().Event();
  CUDA_OK(api().RecordEvent(event, stream));
  // Work that did not wait for the gate has ended by now, so that the query tells.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return api().QueryEvent(event);
}

CudaCode CudaTruthTest::AwaitEvent(CudaEvent event) {
  for (;;) {
    const CudaCode code = api().QueryEvent(event);
    if (code != device::kCudaNotReady) {
      return code;
    }
    std::this_thread::yield();
  }
}

LateOpener::LateOpener(CudaLab& lab, int gate) {
  thread_ = std::thread([this, &lab, gate] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    opened_.store(true);
    lab.Open(gate);
  });
}

void OnAnotherThread(device::CudaApi& api, const std::function<void()>& body) {
  std::thread([&] {
    device::CudaContext context = nullptr;
    CUDA_OK(api.RetainContext(0, &context));
    CUDA_OK(api.PushContext(context));
    body();
    CUDA_OK(api.PopContext());
    CUDA_OK(api.ReleaseContext(0));
  }).join();
}

}  // namespace sluice::testing
