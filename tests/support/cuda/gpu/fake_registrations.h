#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "runtime/device/cuda/cuda_api.h"

namespace sluice::testing {

/// Registered ranges of host memory, in whole pages. Looking one up takes no lock: callers of
/// copies get no order from each other.
class FakeRegistrations {
 public:
  enum class Cover { kNone, kPart, kWhole };

  FakeRegistrations();

  device::CudaCode Add(const std::byte* address, std::uint64_t bytes);
  /// Whether a range was registered at this address.
  bool Has(const std::byte* address) const;
  device::CudaCode Remove(const std::byte* address);
  /// Part of the bytes that lies in one registered range.
  Cover Find(const std::byte* address, std::uint64_t bytes) const;

  std::vector<std::string> Leaks() const;

 private:
  struct Range {
    std::uintptr_t address = 0;
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
  };
  using Table = std::vector<Range>;

  const Table& Now() const { return *now_.load(std::memory_order_acquire); }
  void Publish(Table table) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  base::Mutex mutex_;  ///< lock of Add and Remove
  std::deque<Table> tables_ ABSL_GUARDED_BY(mutex_);
  std::atomic<const Table*> now_{nullptr};
};

}  // namespace sluice::testing
