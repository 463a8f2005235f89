#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sluice::numa {

/// A reserved, inaccessible range of addresses, 2 MiB-aligned, under which frames are mapped.
/// Threads: Unmap from any thread on disjoint parts.
class AddressRange {
 public:
  /// Reserves `bytes`, rounded up to 4 KiB. Errors: InvalidArgument (0), ResourceExhausted (address
  /// space).
  static absl::StatusOr<std::unique_ptr<AddressRange>> Reserve(std::uint64_t bytes);
  ~AddressRange();
  AddressRange(const AddressRange&) = delete;
  AddressRange& operator=(const AddressRange&) = delete;

  std::byte* base() const { return base_; }
  std::uint64_t bytes() const { return bytes_; }

  /// Makes the part inaccessible again (PROT_NONE), and drops the frame that is mapped there.
  /// Units: multiples of 4 KiB. Errors: ResourceExhausted (vm.max_map_count: splits a mapping).
  absl::Status Unmap(std::uint64_t offset, std::uint64_t bytes) const;

 private:
  AddressRange(std::byte* base, std::uint64_t bytes) : base_(base), bytes_(bytes) {}
  std::byte* base_;
  std::uint64_t bytes_;
};

}  // namespace sluice::numa
