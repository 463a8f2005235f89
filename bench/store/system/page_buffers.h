#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"

namespace sluice::bench {

/// Content of every page of the benchmark, repeated. It has no zeros, which a drive may skip.
/// Both sides write it, so a slot's checksum is right after fio has written the slot. Its length
/// divides every page.
inline constexpr std::string_view kContent =
    "QvT7xkWm2Jd9RzLb4Hs0PnYcG6fUaE1oKi8tMqVyXw3SjBhDgF5rNlZpCuAe+/=.";

/// Anonymous memory of huge pages (MADV_HUGEPAGE), aligned to 2 MiB and filled with kContent:
/// buffers of equal size, one after the other.
class PageBuffers {
 public:
  /// Errors: ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<PageBuffers>> Create(std::uint32_t count,
                                                             std::uint64_t bytes_each);
  ~PageBuffers();
  PageBuffers(const PageBuffers&) = delete;
  PageBuffers& operator=(const PageBuffers&) = delete;

  std::span<std::byte> operator[](std::uint32_t index) const {
    return {data_ + index * bytes_each_, bytes_each_};
  }
  std::span<std::byte> memory() const { return {data_, bytes()}; }
  std::uint32_t count() const { return count_; }
  /// Whether all memory lies on huge pages.
  bool huge() const;

 private:
  PageBuffers(std::uint32_t count, std::uint64_t bytes_each)
      : count_(count), bytes_each_(bytes_each) {}
  std::uint64_t bytes() const { return count_ * bytes_each_; }
  absl::Status Map();

  const std::uint32_t count_;
  const std::uint64_t bytes_each_;
  void* mapping_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  std::byte* data_ = nullptr;
};

}  // namespace sluice::bench
