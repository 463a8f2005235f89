#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "io/store/page_store.h"
#include "runtime/core/types.h"
#include "runtime/device/device.h"
#include "runtime/engine/data/memory_tier.h"
#include "sluice/tier.h"
#include "sluice/units.h"

namespace sluice::engine {

/// Fate of the mapping of a page that leaves its frame.
enum class LeftMapping : std::uint8_t {
  kUntilTaken,  ///< stays until another page takes the frame
  kStays,       ///< stays until the page is mapped elsewhere or freed, or the frame goes back
  kGoes,        ///< goes at once, so that a use after the eviction is a fault
};

/// One tier of a Runtime. `memory` is null for nvme, which is always the last tier and has no
/// frames where there is no page store.
struct Tier {
  TierId id;
  core::FrameIndex frames = 0;
  std::unique_ptr<MemoryTier> memory;
  LeftMapping left_mapping = LeftMapping::kUntilTaken;
};

/// The tiers of a Runtime, fastest first; the index is that of the core. Immutable.
class TierSet {
 public:
  /// `device` and `store` may be null when no tier needs them; they outlive the set.
  TierSet(std::uint64_t page_bytes,
          std::vector<Tier> tiers,
          device::Device* device,
          io::PageStore* store);

  std::uint64_t page_bytes() const { return page_bytes_; }
  core::TierIndex size() const { return static_cast<core::TierIndex>(tiers_.size()); }
  const Tier& tier(core::TierIndex index) const { return tiers_[index]; }
  TierId id(core::TierIndex index) const { return tiers_[index].id; }
  /// Memory of the tier; null for nvme.
  MemoryTier* memory(core::TierIndex index) const { return tiers_[index].memory.get(); }
  device::Device* device() const { return device_; }
  io::PageStore* store() const { return store_; }

  std::optional<core::TierIndex> IndexOf(TierId id) const;
  /// IndexOf for a tier in which leases can be made. Errors: InvalidArgument that names these
  /// tiers.
  absl::StatusOr<core::TierIndex> LeasableIndexOf(TierId id) const;
  /// The fastest tier with frames. Every Runtime has one in memory.
  core::TierIndex Fastest() const;
  /// The slowest tier that a tensor with this `lowest` may reach; none when the Runtime has no tier
  /// at or above it.
  std::optional<core::TierIndex> LowestFor(TierKind lowest) const;
  bool is_store(core::TierIndex index) const { return memory(index) == nullptr; }
  /// Whether the tier is memory, so that leases and reservations can be made there.
  bool is_leasable(core::TierIndex index) const { return !is_store(index); }
  /// Whether the tier holds pages at all: nvme may have no frames.
  bool exists(core::TierIndex index) const { return tiers_[index].frames > 0; }
  Bytes PagesToBytes(std::uint64_t pages) const { return Bytes(pages * page_bytes_); }
  /// The link between tiers `upper` and `upper` + 1: "hbm-dram".
  std::string LinkName(core::TierIndex upper) const;

 private:
  const std::uint64_t page_bytes_;
  const std::vector<Tier> tiers_;
  device::Device* const device_;
  io::PageStore* const store_;
};

}  // namespace sluice::engine
