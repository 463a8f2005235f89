#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/device/cuda/cuda_api.h"
#include "tests/support/cuda/cuda_lab.h"

namespace sluice::testing {

/// Expects a call to succeed, and names it and its code if it does not.
#define CUDA_OK(call) EXPECT_EQ((call), ::sluice::device::kCudaSuccess)

bool AllAre(std::span<const std::byte> bytes, std::uint8_t value);

/// A thread's work with the first GPU of a driver under test: the context, and what tests need of
/// it over and over. The destructor gives back
/// all that it made.
class GpuSession {
 public:
  explicit GpuSession(CudaLab& lab);
  ~GpuSession();
  GpuSession(const GpuSession&) = delete;
  GpuSession& operator=(const GpuSession&) = delete;

  device::CudaApi& api() { return lab_.api(); }
  CudaLab& lab() { return lab_; }
  const device::CudaDeviceFacts& facts() const { return facts_; }
  std::uint64_t frame_bytes() const { return facts_.granularity; }

  device::CudaStream Stream();
  device::CudaEvent Event();
  device::CudaMemory Frame();
  std::byte* Addresses(std::uint64_t bytes);
  /// Maps the frame, with access.
  void Map(std::byte* address, device::CudaMemory frame);
  void Unmap(std::byte* address);
  /// A new frame, mapped at an address of its own.
  std::byte* Mapped();
  /// Registered host memory of one frame's size, each byte `value`.
  std::span<std::byte> Pinned(std::uint8_t value);

  /// Waits until the stream has done its work.
  void Finish(device::CudaStream stream);
  void CopyIn(std::byte* to, std::span<const std::byte> from, device::CudaStream stream);
  void CopyOut(std::span<std::byte> to, const std::byte* from, device::CudaStream stream);
  /// First and last byte at an address, copied out on a stream of its own. REQUIRES: work on it
  /// has ended.
  std::vector<int> Ends(const std::byte* address);

 private:
  struct Range {
    std::byte* address = nullptr;
    std::uint64_t bytes = 0;
  };

  CudaLab& lab_;
  device::CudaDeviceFacts facts_;
  device::CudaContext context_ = nullptr;
  std::vector<device::CudaStream> streams_;
  std::vector<device::CudaEvent> events_;
  std::vector<device::CudaMemory> frames_;
  std::vector<Range> reserved_;
  std::vector<std::byte*> mapped_;
  std::vector<Range> pinned_;
};

}  // namespace sluice::testing
