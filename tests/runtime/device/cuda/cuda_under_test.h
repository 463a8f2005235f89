#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/device/cuda/cuda_device.h"
#include "tests/support/cuda/fake_cuda.h"

namespace sluice::device {

inline constexpr std::uint64_t kFakePageBytes = 64 << 10;

/// Options of a fake driver with small pages, which is fast.
inline testing::FakeCudaOptions SmallPages() {
  testing::FakeCudaOptions options;
  options.facts.granularity = kFakePageBytes;
  return options;
}

/// Makes the context current and back for a scope, as a user of the GPU does.
class UserContext {
 public:
  explicit UserContext(CudaApi& api) : api_(api) {
    EXPECT_EQ(api_.RetainContext(0, &context_), kCudaSuccess);
    EXPECT_EQ(api_.PushContext(context_), kCudaSuccess);
  }
  ~UserContext() {
    api_.PopContext();
    api_.ReleaseContext(0);
  }
  UserContext(const UserContext&) = delete;
  UserContext& operator=(const UserContext&) = delete;

 private:
  CudaApi& api_;
  CudaContext context_ = nullptr;
};

/// Registered host memory of some pages.
class PinnedPages {
 public:
  PinnedPages(Device& device, std::uint32_t pages)
      : device_(device), page_bytes_(device.page_bytes()), bytes_((pages + 1) * page_bytes_) {
    // Registration takes whole pages of the system.
    void* begin = bytes_.data();
    std::size_t room = bytes_.size();
    begin_ = static_cast<std::byte*>(std::align(page_bytes_, pages * page_bytes_, begin, room));
    span_ = {begin_, pages * page_bytes_};
    status_ = device_.RegisterHost(span_);
  }
  ~PinnedPages() {
    if (status_.ok()) device_.UnregisterHost(span_);
  }
  PinnedPages(const PinnedPages&) = delete;
  PinnedPages& operator=(const PinnedPages&) = delete;

  const absl::Status& status() const { return status_; }
  std::span<std::byte> Page(std::uint32_t page) const {
    return span_.subspan(page * page_bytes_, page_bytes_);
  }

 private:
  Device& device_;
  const std::uint64_t page_bytes_;
  std::vector<std::byte> bytes_;
  std::byte* begin_ = nullptr;
  std::span<std::byte> span_;
  absl::Status status_;
};

}  // namespace sluice::device
