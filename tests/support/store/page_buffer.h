#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <span>

namespace sluice::testing {

/// Memory for one page, aligned for O_DIRECT.
class PageBuffer {
 public:
  explicit PageBuffer(std::size_t bytes)
      : bytes_(bytes), data_(static_cast<std::byte*>(std::aligned_alloc(4096, bytes))) {
    Clear();
  }

  /// Bytes that follow from `seed` and differ from those of other seeds.
  void Fill(std::uint64_t seed) {
    std::mt19937_64 noise(seed);
    for (std::size_t at = 0; at < bytes_; at += sizeof(std::uint64_t)) {
      const std::uint64_t word = noise();
      std::memcpy(data_.get() + at, &word, sizeof(word));
    }
  }
  void Clear() { std::memset(data_.get(), 0x5a, bytes_); }

  bool Holds(std::uint64_t seed) const {
    PageBuffer expected(bytes_);
    expected.Fill(seed);
    return std::memcmp(expected.data_.get(), data_.get(), bytes_) == 0;
  }

  std::span<std::byte> span() { return {data_.get(), bytes_}; }
  std::span<const std::byte> span() const { return {data_.get(), bytes_}; }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  std::size_t bytes_;
  std::unique_ptr<std::byte, Free> data_;
};

}  // namespace sluice::testing
