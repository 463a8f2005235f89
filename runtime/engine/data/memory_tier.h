#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "io/store/page_store.h"
#include "numa/node_arenas.h"
#include "runtime/core/types.h"
#include "runtime/device/device.h"

namespace sluice::engine {

/// One segment's stable addresses in one memory tier.
class MappedRange {
 public:
  virtual ~MappedRange() = default;
  virtual std::byte* base() const = 0;
};

/// What the engine needs of a tier that compute code can address: host memory and device memory
/// look the same from here. Threads: Map, Unmap, MapForReading and Resize from the mapper thread
/// only, the rest from any.
class MemoryTier {
 public:
  virtual ~MemoryTier() = default;

  virtual std::span<std::byte> Frame(core::FrameIndex frame) const = 0;
  virtual absl::StatusOr<std::unique_ptr<MappedRange>> ReserveRange(std::uint64_t bytes) = 0;
  /// `range` is one that this tier reserved; `page` counts from its start.
  virtual absl::Status Map(MappedRange& range, std::uint64_t page, core::FrameIndex frame) = 0;
  virtual absl::Status Unmap(MappedRange& range, std::uint64_t page) = 0;
  /// Whether the processor can read frames, so that MapForReading works.
  virtual bool host_readable() const { return false; }
  /// Maps a frame read-only at any host address, replacing what is there.
  virtual absl::Status MapForReading(core::FrameIndex /*frame*/, std::byte* /*address*/) {
    return absl::UnimplementedError("the processor does not address these frames");
  }
  /// Gives frames from `frames` on back to the system, or takes them again.
  virtual absl::Status Resize(core::FrameIndex frames) = 0;
  virtual std::uint64_t allocated_bytes() const = 0;
  virtual double huge_page_share() const = 0;
  /// The processors near each of the parts that the memory consists of, as a rule one per NUMA
  /// node, and the part that has the frame.
  virtual std::vector<std::vector<int>> Nodes() const { return {{}}; }
  virtual std::uint32_t NodeOf(core::FrameIndex) const { return 0; }
};

/// `arenas` and `device` outlive the tier and its ranges. `store`, if there is one, has the frames
/// registered as long as they are the arenas'; it outlives the tier, too.
std::unique_ptr<MemoryTier> MakeHostTier(numa::NodeArenas& arenas, io::PageStore* store);
std::unique_ptr<MemoryTier> MakeDeviceTier(device::Device& device);

}  // namespace sluice::engine
