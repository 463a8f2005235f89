#include "numa/address_range.h"

#include <sys/mman.h>

#include <cerrno>

#include "absl/memory/memory.h"
#include "base/check.h"
#include "base/status.h"
#include "numa/huge_pages.h"

namespace sluice::numa {
namespace {

/// Inaccessible pages without memory behind them.
constexpr int kReservedFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

/// Gives back what lies before and behind the aligned part of a reservation.
std::byte* TrimToAlignment(std::byte* start, std::uint64_t reserved, std::uint64_t bytes) {
  const std::uint64_t address = reinterpret_cast<std::uintptr_t>(start);
  const std::uint64_t head = (kHugePageBytes - address % kHugePageBytes) % kHugePageBytes;
  const std::uint64_t tail = reserved - head - bytes;
  if (head > 0) munmap(start, head);
  if (tail > 0) munmap(start + head + bytes, tail);
  return start + head;
}

}  // namespace

absl::StatusOr<std::unique_ptr<AddressRange>> AddressRange::Reserve(std::uint64_t bytes) {
  if (bytes == 0) return absl::InvalidArgumentError("an address range holds at least one byte");
  if (bytes > (1ull << 47)) {
    return absl::ResourceExhaustedError("an address range is at most 128 TiB long");
  }
  bytes = (bytes + kSmallPageBytes - 1) / kSmallPageBytes * kSmallPageBytes;
  const std::uint64_t reserved = bytes + kHugePageBytes;
  void* start = mmap(nullptr, reserved, PROT_NONE, kReservedFlags, -1, 0);
  if (start == MAP_FAILED) return base::StatusFromErrno(errno, "mmap to reserve addresses");
  std::byte* base = TrimToAlignment(static_cast<std::byte*>(start), reserved, bytes);
  return absl::WrapUnique(new AddressRange(base, bytes));
}

AddressRange::~AddressRange() { munmap(base_, bytes_); }

absl::Status AddressRange::Unmap(std::uint64_t offset, std::uint64_t bytes) const {
  SLUICE_CHECK(offset <= bytes_ && bytes <= bytes_ - offset, "the part lies within the range");
  void* result = mmap(base_ + offset, bytes, PROT_NONE, kReservedFlags | MAP_FIXED, -1, 0);
  if (result == MAP_FAILED) return base::StatusFromErrno(errno, "mmap to drop a mapping");
  return absl::OkStatus();
}

}  // namespace sluice::numa
