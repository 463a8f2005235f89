#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/device/cuda/cuda_context.h"

namespace sluice::device {

/// Physical memory of a GPU in frames of one page. Each frame has an address of its own for copies,
/// and may be mapped under others besides. Threads: Resize one at a time, the rest any.
class CudaFrames {
 public:
  /// `share` outlives the frames. Errors: ResourceExhausted that names the free bytes, and those of
  /// CudaHealth::Check.
  static absl::StatusOr<std::unique_ptr<CudaFrames>> Create(const CudaContextShare& share,
                                                            std::uint64_t page_bytes,
                                                            std::uint32_t frames);
  /// Gives the memory back. REQUIRES: no frame is mapped elsewhere, and no work uses one. A dead
  /// GPU keeps its memory until the process ends.
  ~CudaFrames();
  CudaFrames(const CudaFrames&) = delete;
  CudaFrames& operator=(const CudaFrames&) = delete;

  std::uint64_t page_bytes() const { return page_bytes_; }
  std::uint32_t count() const { return count_.load(std::memory_order_acquire); }
  std::span<std::byte> Frame(std::uint32_t frame) const {
    return {base_ + frame * page_bytes_, page_bytes_};
  }
  CudaMemory memory(std::uint32_t frame) const { return memory_[frame]; }

  /// Gives frames from `frames` on back, or takes them again. Returns the number of frames
  /// afterwards. REQUIRES: those of the destructor, for the frames that go.
  absl::StatusOr<std::uint32_t> Resize(std::uint32_t frames);

 private:
  CudaFrames(const CudaContextShare& share, std::uint64_t page_bytes, std::uint32_t frames)
      : share_(share), page_bytes_(page_bytes), memory_(frames) {}

  absl::Status Grow(std::uint32_t frames);
  absl::Status Shrink(std::uint32_t frames);
  absl::Status Add(std::uint32_t frame);
  absl::Status Remove(std::uint32_t frame);
  absl::Status TooLittle(const absl::Status& cause, std::uint32_t frames) const;

  const CudaContextShare& share_;
  const std::uint64_t page_bytes_;
  std::byte* base_ = nullptr;
  std::vector<CudaMemory> memory_;
  std::atomic<std::uint32_t> count_{0};
};

}  // namespace sluice::device
