#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
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

/// A tier that compute code can address. Host memory and device memory look the same to the engine.
/// Threads: Map, Unmap, MapForReading, Resize, KeepMemory and LetMemoryGo from the mapper thread
/// only, the rest from any.
class MemoryTier {
 public:
  virtual ~MemoryTier() = default;

  virtual std::span<std::byte> Frame(core::FrameIndex frame) const = 0;
  /// Whether the host reads and writes frames and ranges in place.
  virtual bool host_accessible() const { return true; }
  /// Gives every byte of the frame the value. `done` may run before it returns.
  virtual void Fill(core::FrameIndex frame, std::uint8_t value, device::DoneFn done) = 0;
  /// Reason for which copies of the device stop at this memory instead of running beside their
  /// caller; empty where they run. OnRefused: `tell` is called, on any thread, if a reason comes up
  /// later.
  virtual std::string unregistered_reason() const { return ""; }
  virtual void OnRefused(std::function<void()> /*tell*/) {}
  /// Runs `job` once it is settled whether copies of the device run beside their caller with this
  /// frame: at once, or later on another thread.
  virtual void WhenSettled(core::FrameIndex /*frame*/, absl::AnyInvocable<void()> job) { job(); }
  /// Whether a GPU's copies from and to the frame run beside their caller.
  virtual bool IsPinned(core::FrameIndex /*frame*/) const { return false; }
  virtual absl::StatusOr<std::unique_ptr<MappedRange>> ReserveRange(std::uint64_t bytes) = 0;
  /// `range` is one that this tier reserved; `page` counts from its start.
  virtual absl::Status Map(MappedRange& range, std::uint64_t page, core::FrameIndex frame) = 0;
  virtual absl::Status Unmap(MappedRange& range, std::uint64_t page) = 0;
  /// Maps a frame read-only at any host address, replacing what is there. REQUIRES:
  /// host_accessible.
  virtual absl::Status MapForReading(core::FrameIndex /*frame*/, std::byte* /*address*/) {
    return absl::UnimplementedError("the processor does not address these frames");
  }
  /// Gives frames from `frames` on back to the system, or takes them again.
  virtual absl::Status Resize(core::FrameIndex frames) = 0;
  /// Has Resize keep memory, from now on, that a GPU would give back only when its kernels are
  /// done. LetMemoryGo gives it back.
  virtual void KeepMemory() {}
  virtual absl::Status LetMemoryGo() { return absl::OkStatus(); }
  virtual std::uint64_t allocated_bytes() const = 0;
  virtual double huge_page_share() const = 0;
  /// Nodes: the processors near each part of the memory; as a rule there is one part per NUMA node.
  /// NodeOf: the part that has the frame.
  virtual std::vector<std::vector<int>> Nodes() const { return {{}}; }
  virtual std::uint32_t NodeOf(core::FrameIndex) const { return 0; }
};

/// The tier of the host's memory. `arenas` outlive the tier and its ranges. `store` and `device`
/// may be null; else they outlive the tier, and have the frames registered as long as the arenas
/// hold them. A GPU has the first chunk of frames at once, and the others soon.
std::unique_ptr<MemoryTier> MakeHostTier(numa::NodeArenas& arenas,
                                         io::PageStore* store,
                                         device::Device* device);
/// The tier of the device's memory. `device` outlives the tier and its ranges.
std::unique_ptr<MemoryTier> MakeDeviceTier(device::Device& device);

}  // namespace sluice::engine
