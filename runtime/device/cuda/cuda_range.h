#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "runtime/device/cuda/cuda_context.h"
#include "runtime/device/cuda/cuda_frames.h"
#include "runtime/device/device.h"

namespace sluice::device {

/// Reserved addresses of a GPU, in pages. Threads: any.
class CudaRange : public DeviceRange {
 public:
  /// `share` outlives the range. Errors: those of CudaHealth::Check.
  static absl::StatusOr<std::unique_ptr<CudaRange>> Reserve(const CudaContextShare& share,
                                                            std::uint64_t page_bytes,
                                                            std::uint64_t bytes);
  ~CudaRange() override;

  std::byte* base() const override { return base_; }
  std::uint64_t bytes() const override { return bytes_; }

  /// Maps memory at the page. Errors: those of CudaHealth::Check; then nothing is mapped at the
  /// page, or what the driver refused to unmap.
  absl::Status Map(std::uint64_t page, CudaMemory memory);
  absl::Status Unmap(std::uint64_t page);

 private:
  CudaRange(const CudaContextShare& share, std::uint64_t page_bytes, std::uint64_t pages)
      : share_(share), page_bytes_(page_bytes), bytes_(pages * page_bytes), pages_(pages) {}

  std::byte* AddressOf(std::uint64_t page) const { return base_ + page * page_bytes_; }
  absl::Status UnmapLocked(std::uint64_t page) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const CudaContextShare& share_;
  const std::uint64_t page_bytes_;
  const std::uint64_t bytes_;
  std::byte* base_ = nullptr;
  base::Mutex mutex_;
  std::vector<bool> pages_ ABSL_GUARDED_BY(mutex_);  ///< pages that are mapped
};

}  // namespace sluice::device
