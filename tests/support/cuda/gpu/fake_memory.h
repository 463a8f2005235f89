#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "runtime/device/cuda/cuda_api.h"

namespace sluice::testing {

/// Physical memory. The fake frees its pages once it is released and unmapped, and never its
/// addresses: work that is too late spoils nothing else.
struct FakeMemory {
  int ordinal = 0;
  std::uint64_t bytes = 0;
  std::byte* storage = nullptr;
  bool released = false;
  int mappings = 0;
  int touches = 0;  ///< integer that work on the memory reads or writes, for ThreadSanitizer
};

/// A memory at an address, until it is unmapped.
struct FakeMapping {
  FakeMemory* memory = nullptr;
  std::byte* address = nullptr;
  std::atomic<std::uint32_t> devices{0};  ///< bits of the devices that have access
  int uses = 0;  ///< integer that work reads and UnmapMemory writes, for ThreadSanitizer
};

/// Part of a span of device addresses that lies in one memory.
struct FakePiece {
  FakeMapping* mapping = nullptr;
  std::byte* storage = nullptr;
  std::uint64_t bytes = 0;
};

enum class FakeUse { kRead, kWrite };

/// Physical memory, addresses and mappings, with the driver's refusals. The addresses are reserved
/// without access, so that a host that touches one faults. Work looks addresses up without a lock.
/// It sees the calls that mapped its own pages, but is ordered behind no others.
class FakeAddressSpace {
 public:
  struct Options {
    int devices = 1;
    std::uint64_t granularity = 0;
    std::uint64_t pages = 0;         ///< device addresses, in units of the granularity
    std::uint64_t memory_bytes = 0;  ///< memory of each device
    bool garbage = true;             ///< new memory holds 0xA5
  };

  explicit FakeAddressSpace(const Options& options);
  ~FakeAddressSpace();

  device::CudaCode Create(int ordinal, std::uint64_t bytes, device::CudaMemory* memory);
  device::CudaCode Release(device::CudaMemory memory);
  device::CudaCode Reserve(std::uint64_t bytes, std::byte** address);
  device::CudaCode Free(std::byte* address, std::uint64_t bytes);
  device::CudaCode Map(std::byte* address, std::uint64_t bytes, device::CudaMemory memory);
  device::CudaCode Unmap(std::byte* address, std::uint64_t bytes);
  device::CudaCode Allow(std::byte* address, std::uint64_t bytes, int ordinal);

  std::uint64_t UsedBytes(int ordinal);
  /// Memory that something else than the API took, for tests of a full card.
  void TakeAway(int ordinal, std::int64_t bytes);

  /// Whether the address is one of the device's.
  bool Contains(const std::byte* address) const;
  /// Whether each page of the span is mapped, with or without access.
  bool IsMapped(const std::byte* address, std::uint64_t bytes) const;
  /// Memory under the span, now; empty if a page is not mapped or the device has no access.
  std::vector<FakePiece> Translate(const std::byte* address,
                                   std::uint64_t bytes,
                                   int ordinal,
                                   FakeUse use) const;
  /// Whether the pieces are still mapped at their places.
  bool StillThere(const std::vector<FakePiece>& pieces) const;

  std::vector<std::string> Leaks();

 private:
  using Entry = std::atomic<FakeMapping*>;

  std::byte* FirstPage() const;
  std::uint64_t PageOf(const std::byte* address) const;
  bool IsWhole(const std::byte* address, std::uint64_t bytes) const;
  bool IsReserved(const std::byte* address, std::uint64_t bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  FakeMemory* Find(device::CudaMemory memory) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool WholeMappings(const std::byte* address,
                     std::uint64_t bytes,
                     std::vector<FakeMapping*>* found) const;
  void FreeIfUnused(FakeMemory& memory) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  std::byte* begin_ = nullptr;
  const std::unique_ptr<Entry[]> table_;  ///< mapping at each page of the device's addresses

  base::Mutex mutex_;  ///< lock of calls, never of work
  std::vector<std::unique_ptr<FakeMemory>> memories_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<FakeMapping>> mappings_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::int64_t> used_bytes_ ABSL_GUARDED_BY(mutex_);
  std::map<std::uint64_t, std::uint64_t> reserved_ ABSL_GUARDED_BY(mutex_);  ///< pages by begin
};

}  // namespace sluice::testing
