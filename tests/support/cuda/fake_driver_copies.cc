// Copies and fills of the fake driver.

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/cuda/fake_driver.h"

namespace sluice::testing {

using device::CudaCode;
using device::CudaCopy;
using device::CudaStream;
using device::kCudaSuccess;

namespace {

// Runs a copy when its turn comes. The addresses are translated at its begin and once more at its
// end. An unmap in between makes the copy fail.
CudaCode RunCopy(FakeState& state, int ordinal, const CudaCopy& copy) {
  const bool in = state.space.Contains(copy.to);
  const std::vector<FakePiece> pieces =
      in ? state.space.Translate(copy.to, copy.bytes, ordinal, FakeUse::kWrite)
         : state.space.Translate(copy.from, copy.bytes, ordinal, FakeUse::kRead);
  if (pieces.empty()) {
    return device::kCudaIllegalAddress;
  }
  std::uint64_t done = 0;
  for (const FakePiece& piece : pieces) {
    if (in) {
      std::memcpy(piece.storage, copy.from + done, piece.bytes);
    } else {
      std::memcpy(copy.to + done, piece.storage, piece.bytes);
    }
    done += piece.bytes;
  }
  (in ? state.counters.bytes_in : state.counters.bytes_out)
      .fetch_add(done, std::memory_order_relaxed);
  if (state.options.link_time.count() > 0) {
    std::this_thread::sleep_for(state.options.link_time);
  }
  return state.space.StillThere(pieces) ? kCudaSuccess : device::kCudaIllegalAddress;
}

}  // namespace

CudaCode FakeDriver::Copy(FakeEntry entry, std::span<const CudaCopy> copies, CudaStream stream) {
  FakeContext* context = nullptr;
  const CudaCode code = state_.Begin(entry, &context);
  if (code != kCudaSuccess) {
    return code;
  }
  FakeStream* found = state_.Find(*context, stream);
  if (found == nullptr) {
    return kFakeInvalidHandle;
  }
  if (entry == FakeEntry::kCopyBatch) {
    if (!state_.options.batch_copies) {
      return device::kCudaNotSupported;
    }
    if (found == &context->legacy()) {
      return device::kCudaInvalidValue;
    }
  }
  std::vector<FakeItem> items;
  bool blocks = false;
  for (const CudaCopy& copy : copies) {
    if (copy.bytes == 0) {
      continue;
    }
    const bool in = state_.space.Contains(copy.to);
    if ((entry == FakeEntry::kCopyIn && !in) || (entry == FakeEntry::kCopyOut && in)) {
      return device::kCudaInvalidValue;
    }
    const std::byte* at = in ? copy.to : copy.from;
    const std::byte* host = in ? copy.from : copy.to;
    const auto cover = state_.registrations.Find(host, copy.bytes);
    if (host == nullptr || state_.space.Contains(host) || !state_.space.IsMapped(at, copy.bytes) ||
        cover == FakeRegistrations::Cover::kPart) {
      return device::kCudaInvalidValue;
    }
    blocks = blocks || cover == FakeRegistrations::Cover::kNone;
    const bool held = in && state_.holds_copies_in.load();
    const std::uint32_t opening = state_.held_copies.NextOpening();
    items.push_back({.work =
                         [&state = state_, ordinal = context->ordinal(), copy, held, opening] {
                           if (held) state.held_copies.Wait(opening);
                           return RunCopy(state, ordinal, copy);
                         },
                     .in_flight = in ? &state_.counters.copies_in : &state_.counters.copies_out});
  }
  if (!blocks || items.empty()) {
    return state_.Enqueue(*context, *found, std::move(items));
  }
  if (FakeCapture* capture = found->capture(); capture != nullptr) {
    capture->invalid.store(true);
    return device::kCudaCaptureUnsupported;
  }
  state_.counters.blocking_copies.fetch_add(1, std::memory_order_relaxed);
  const CudaCode enqueued = state_.Enqueue(*context, *found, std::move(items));
  if (enqueued == kCudaSuccess) {
    found->Mark().Wait();
    return context->Error();
  }
  return enqueued;
}

CudaCode FakeDriver::CopyIn(const CudaCopy& copy, CudaStream stream) {
  return Copy(FakeEntry::kCopyIn, {&copy, 1}, stream);
}

CudaCode FakeDriver::CopyOut(const CudaCopy& copy, CudaStream stream) {
  return Copy(FakeEntry::kCopyOut, {&copy, 1}, stream);
}

CudaCode FakeDriver::CopyBatch(std::span<const CudaCopy> copies, CudaStream stream) {
  std::vector<CudaCopy> shuffled(copies.begin(), copies.end());
  const std::uint64_t batch = state_.counters.batches.fetch_add(1, std::memory_order_relaxed);
  std::shuffle(shuffled.begin(), shuffled.end(), std::mt19937_64(state_.options.seed + batch));
  return Copy(FakeEntry::kCopyBatch, shuffled, stream);
}

CudaCode FakeDriver::Fill(std::byte* to,
                          std::uint8_t value,
                          std::uint64_t bytes,
                          CudaStream stream) {
  FakeContext* context = nullptr;
  const CudaCode code = state_.Begin(FakeEntry::kFill, &context);
  if (code != kCudaSuccess) {
    return code;
  }
  FakeStream* found = state_.Find(*context, stream);
  if (found == nullptr) {
    return kFakeInvalidHandle;
  }
  if (bytes == 0) {
    return kCudaSuccess;
  }
  if (!state_.space.IsMapped(to, bytes)) {
    return device::kCudaInvalidValue;
  }
  FakeWork work = [&space = state_.space, ordinal = context->ordinal(), to, value, bytes] {
    const std::vector<FakePiece> pieces = space.Translate(to, bytes, ordinal, FakeUse::kWrite);
    for (const FakePiece& piece : pieces) {
      std::memset(piece.storage, value, piece.bytes);
    }
    return !pieces.empty() && space.StillThere(pieces) ? kCudaSuccess : device::kCudaIllegalAddress;
  };
  return state_.Enqueue(*context, *found, {{.work = std::move(work)}});
}

}  // namespace sluice::testing
