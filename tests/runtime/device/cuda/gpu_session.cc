#include "tests/runtime/device/cuda/gpu_session.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

namespace sluice::testing {

using device::CudaEvent;
using device::CudaMemory;
using device::CudaStream;

bool AllAre(std::span<const std::byte> bytes, std::uint8_t value) {
  return std::all_of(
      bytes.begin(), bytes.end(), [&](std::byte byte) { return byte == std::byte{value}; });
}

GpuSession::GpuSession(CudaLab& lab) : lab_(lab) {
  CUDA_OK(api().DescribeDevice(0, &facts_));
  CUDA_OK(api().RetainContext(0, &context_));
  CUDA_OK(api().PushContext(context_));
  // The first launch loads the kernel, and may wait for kernels that run: for a closed gate.
  CUDA_OK(lab.LaunchAdd({}, 0, device::kCudaLegacyStream));
  CUDA_OK(api().SynchronizeStream(device::kCudaLegacyStream));
}

// The context refuses these calls after a sticky error, which its case has reported.
GpuSession::~GpuSession() {
  for (CudaStream stream : streams_) {
    api().SynchronizeStream(stream);
    api().DestroyStream(stream);
  }
  for (CudaEvent event : events_) {
    api().DestroyEvent(event);
  }
  for (std::byte* address : mapped_) {
    api().UnmapMemory(address, frame_bytes());
  }
  for (CudaMemory frame : frames_) {
    api().ReleaseMemory(frame);
  }
  for (const Range& range : reserved_) {
    api().FreeAddresses(range.address, range.bytes);
  }
  for (const Range& range : pinned_) {
    api().UnregisterHost(range.address);
    munmap(range.address, range.bytes);
  }
  api().PopContext();
  api().ReleaseContext(0);
}

CudaStream GpuSession::Stream() {
  CudaStream stream = nullptr;
  CUDA_OK(api().CreateStream(&stream));
  streams_.push_back(stream);
  return stream;
}

CudaEvent GpuSession::Event() {
  CudaEvent event = nullptr;
  CUDA_OK(api().CreateEvent(&event));
  events_.push_back(event);
  return event;
}

CudaMemory GpuSession::Frame() {
  CudaMemory frame = 0;
  CUDA_OK(api().CreateMemory(0, frame_bytes(), &frame));
  frames_.push_back(frame);
  return frame;
}

std::byte* GpuSession::Addresses(std::uint64_t bytes) {
  std::byte* address = nullptr;
  CUDA_OK(api().ReserveAddresses(bytes, &address));
  reserved_.push_back({address, bytes});
  return address;
}

void GpuSession::Map(std::byte* address, CudaMemory frame) {
  CUDA_OK(api().MapMemory(address, frame_bytes(), frame));
  CUDA_OK(api().AllowAccess(address, frame_bytes(), 0));
  mapped_.push_back(address);
}

void GpuSession::Unmap(std::byte* address) {
  CUDA_OK(api().UnmapMemory(address, frame_bytes()));
  std::erase(mapped_, address);
}

std::byte* GpuSession::Mapped() {
  std::byte* address = Addresses(frame_bytes());
  Map(address, Frame());
  return address;
}

std::span<std::byte> GpuSession::Pinned(std::uint8_t value) {
  const std::uint64_t bytes = frame_bytes();
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(memory, MAP_FAILED);
  auto* address = static_cast<std::byte*>(memory);
  std::memset(address, value, bytes);
  CUDA_OK(api().RegisterHost(address, bytes));
  pinned_.push_back({address, bytes});
  return {address, bytes};
}

void GpuSession::Finish(CudaStream stream) { CUDA_OK(api().SynchronizeStream(stream)); }

void GpuSession::CopyIn(std::byte* to, std::span<const std::byte> from, CudaStream stream) {
  CUDA_OK(api().CopyIn({.to = to, .from = from.data(), .bytes = from.size()}, stream));
}

void GpuSession::CopyOut(std::span<std::byte> to, const std::byte* from, CudaStream stream) {
  CUDA_OK(api().CopyOut({.to = to.data(), .from = from, .bytes = to.size()}, stream));
}

std::vector<int> GpuSession::Ends(const std::byte* address) {
  const std::span<std::byte> host = Pinned(0);
  CudaStream stream = Stream();
  CopyOut(host, address, stream);
  Finish(stream);
  return {std::to_integer<int>(host.front()), std::to_integer<int>(host.back())};
}

}  // namespace sluice::testing
