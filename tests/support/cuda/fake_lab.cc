// Kernels, captures and graphs of the fake driver.

#include <cstring>
#include <utility>
#include <vector>

#include "tests/support/cuda/fake_cuda.h"
#include "tests/support/cuda/fake_state.h"

namespace sluice::testing {

using device::CudaCode;
using device::CudaStream;
using device::kCudaSuccess;

namespace {

void Add(std::byte* bytes, std::uint64_t count, std::uint8_t value) {
  for (std::uint64_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<std::byte>(std::to_integer<unsigned>(bytes[i]) + value);
  }
}

// The kernel reaches device memory, and host memory that is registered.
CudaCode RunAdd(FakeState& state, int ordinal, std::span<std::byte> span, std::uint8_t value) {
  if (!state.space.Contains(span.data())) {
    if (state.registrations.Find(span.data(), span.size()) != FakeRegistrations::Cover::kWhole) {
      return device::kCudaIllegalAddress;
    }
    Add(span.data(), span.size(), value);
    return kCudaSuccess;
  }
  const std::vector<FakePiece> pieces =
      state.space.Translate(span.data(), span.size(), ordinal, FakeUse::kWrite);
  for (const FakePiece& piece : pieces) {
    Add(piece.storage, piece.bytes, value);
  }
  return !pieces.empty() && state.space.StillThere(pieces) ? kCudaSuccess
                                                           : device::kCudaIllegalAddress;
}

// Both sides are translated at the begin of the copy and once more at its end.
CudaCode RunCopyWithin(FakeState& state,
                       int ordinal,
                       std::byte* to,
                       std::span<const std::byte> from) {
  const auto sources = state.space.Translate(from.data(), from.size(), ordinal, FakeUse::kRead);
  const auto targets = state.space.Translate(to, from.size(), ordinal, FakeUse::kWrite);
  if (sources.empty() || targets.empty()) {
    return device::kCudaIllegalAddress;
  }
  std::vector<std::byte> bytes;
  for (const FakePiece& piece : sources) {
    bytes.insert(bytes.end(), piece.storage, piece.storage + piece.bytes);
  }
  std::uint64_t done = 0;
  for (const FakePiece& piece : targets) {
    std::memcpy(piece.storage, bytes.data() + done, piece.bytes);
    done += piece.bytes;
  }
  return state.space.StillThere(sources) && state.space.StillThere(targets)
             ? kCudaSuccess
             : device::kCudaIllegalAddress;
}

// The context and stream of a call of the lab, which is no entry of the API.
CudaCode FindStream(FakeState& state,
                    CudaStream handle,
                    FakeContext** context,
                    FakeStream** stream) {
  const CudaCode code = state.Current(context);
  if (code != kCudaSuccess) {
    return code;
  }
  *stream = state.Find(**context, handle);
  return *stream == nullptr ? kFakeInvalidHandle : kCudaSuccess;
}

}  // namespace

CudaCode FakeCuda::LaunchAdd(std::span<std::byte> span, std::uint8_t value, CudaStream stream) {
  FakeContext* context = nullptr;
  FakeStream* found = nullptr;
  const CudaCode code = FindStream(*state_, stream, &context, &found);
  if (code != kCudaSuccess || span.empty()) {
    return code;
  }
  FakeWork work = [state = state_.get(), ordinal = context->ordinal(), span, value] {
    return RunAdd(*state, ordinal, span, value);
  };
  return state_->Enqueue(*context, *found, {{.work = std::move(work)}});
}

CudaCode FakeCuda::CopyWithin(std::byte* to, std::span<const std::byte> from, CudaStream stream) {
  FakeContext* context = nullptr;
  FakeStream* found = nullptr;
  const CudaCode code = FindStream(*state_, stream, &context, &found);
  if (code != kCudaSuccess) {
    return code;
  }
  if (!state_->space.IsMapped(to, from.size()) ||
      !state_->space.IsMapped(from.data(), from.size())) {
    return device::kCudaInvalidValue;
  }
  FakeWork work = [state = state_.get(), ordinal = context->ordinal(), to, from] {
    return RunCopyWithin(*state, ordinal, to, from);
  };
  return state_->Enqueue(*context, *found, {{.work = std::move(work)}});
}

void FakeCuda::HoldRegistrations(std::uint64_t passing) {
  state_->registrations_passing.store(static_cast<std::int64_t>(passing));
  state_->held_registrations.store(1);
}

void FakeCuda::ReleaseRegistrations() {
  state_->held_registrations.store(0);
  state_->held_registrations.notify_all();
}

void FakeCuda::HoldCopies() { state_->holds_copies_in.store(true); }

void FakeCuda::ReleaseCopies() {
  state_->holds_copies_in.store(false);
  state_->held_copies.Open();
}

CudaCode FakeCuda::LaunchGate(int gate, CudaStream stream) {
  FakeContext* context = nullptr;
  FakeStream* found = nullptr;
  const CudaCode code = FindStream(*state_, stream, &context, &found);
  if (code != kCudaSuccess) {
    return code;
  }
  FakeGate* closed = &context->fate().gate(gate);
  FakeWork work = [closed, opening = closed->NextOpening()] {
    closed->Wait(opening);
    return kCudaSuccess;
  };
  return state_->Enqueue(*context, *found, {{.work = std::move(work)}});
}

void FakeCuda::Open(int gate) {
  for (int ordinal = 0; ordinal < state_->options.devices; ++ordinal) {
    state_->context(ordinal)->fate().gate(gate).Open();
  }
}

CudaCode FakeCuda::BeginCapture(CudaStream stream, bool global) {
  FakeContext* context = nullptr;
  FakeStream* found = nullptr;
  const CudaCode code = FindStream(*state_, stream, &context, &found);
  if (code != kCudaSuccess) {
    return code;
  }
  if (found == &context->legacy()) {
    return device::kCudaCaptureUnsupported;
  }
  if (found->capture() != nullptr) {
    return kFakeIllegalState;
  }
  state_->MakeCapture(*found, global);
  return kCudaSuccess;
}

CudaCode FakeCuda::EndCapture(CudaStream stream, CudaGraph* graph) {
  FakeContext* context = nullptr;
  FakeStream* found = nullptr;
  const CudaCode code = FindStream(*state_, stream, &context, &found);
  if (code != kCudaSuccess) {
    return code;
  }
  *graph = nullptr;
  FakeCapture* capture = found->capture();
  if (capture == nullptr) {
    return kFakeIllegalState;
  }
  if (&capture->origin != found) {
    return kFakeCaptureUnmatched;
  }
  if (capture->thread != std::this_thread::get_id()) {
    return kFakeCaptureWrongThread;
  }
  state_->EndCapture(*capture);
  if (capture->invalid.load()) {
    return device::kCudaCaptureInvalidated;
  }
  *graph = reinterpret_cast<CudaGraph>(&state_->MakeGraph(capture->TakeWork()));
  return kCudaSuccess;
}

CudaCode FakeCuda::LaunchGraph(CudaGraph graph, CudaStream stream) {
  FakeContext* context = nullptr;
  FakeStream* found = nullptr;
  const CudaCode code = FindStream(*state_, stream, &context, &found);
  if (code != kCudaSuccess) {
    return code;
  }
  if (graph == nullptr) {
    return kFakeInvalidHandle;
  }
  std::vector<FakeItem> items;
  for (const FakeWork& work : reinterpret_cast<FakeGraph*>(graph)->work) {
    items.push_back({.work = work});
  }
  return state_->Enqueue(*context, *found, std::move(items));
}

CudaCode FakeCuda::DestroyGraph(CudaGraph graph) {
  FakeContext* context = nullptr;
  const CudaCode code = state_->Current(&context);
  if (code != kCudaSuccess) {
    return code;
  }
  if (graph == nullptr) {
    return kFakeInvalidHandle;
  }
  reinterpret_cast<FakeGraph*>(graph)->alive.store(false);
  return kCudaSuccess;
}

}  // namespace sluice::testing
