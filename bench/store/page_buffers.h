#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"

namespace sluice::bench {

enum class Pages : std::uint8_t { kHuge, kSmall };

/// Anonymous memory, aligned to 2 MiB and filled with noise, as a drive may take a short way with
/// zeros: buffers of equal size, one after the other.
class PageBuffers {
 public:
  /// `pages`: what the memory is made of, MADV_HUGEPAGE or MADV_NOHUGEPAGE. Errors:
  /// ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<PageBuffers>> Create(std::uint32_t count,
                                                             std::uint64_t bytes_each,
                                                             Pages pages);
  ~PageBuffers();
  PageBuffers(const PageBuffers&) = delete;
  PageBuffers& operator=(const PageBuffers&) = delete;

  std::span<std::byte> operator[](std::uint32_t index) const {
    return {data_ + index * bytes_each_, bytes_each_};
  }
  std::uint32_t count() const { return count_; }
  /// Whether all of it is huge pages.
  bool huge() const;

 private:
  PageBuffers(std::uint32_t count, std::uint64_t bytes_each)
      : count_(count), bytes_each_(bytes_each) {}
  std::uint64_t bytes() const { return count_ * bytes_each_; }
  absl::Status Map(Pages pages);

  const std::uint32_t count_;
  const std::uint64_t bytes_each_;
  void* mapping_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  std::byte* data_ = nullptr;
};

}  // namespace sluice::bench
