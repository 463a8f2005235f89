#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"

namespace sluice::bench {

/// What every page of the benchmark holds, over and over: no zeros, with which a drive may take a
/// short way. Both sides write the same, so that they can work on the same files: what fio writes
/// to a slot is what the slot's checksum was made of. Its length divides every page.
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
  /// Whether all of it is huge pages.
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
