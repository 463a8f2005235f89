#include "runtime/engine/memory_needs.h"

#include <algorithm>

#include "base/status.h"
#include "fmt/format.h"

namespace sluice::engine {
namespace {

/// Mappings that the rest of the process may need.
constexpr std::uint64_t kMappingsKept = 4096;
/// A page mapped at its stable address, and the part of the reserved range that it cuts off.
constexpr std::uint64_t kMappingsPerFrame = 2;

/// Of the core, the policy and the page store for each frame or slot that there is.
constexpr std::uint64_t kBytesPerFrame = 64;
/// Of the core, the policy and the engine for each page of a tensor: core::Page in a vector that
/// doubles, and two mappings of the kernel.
constexpr std::uint64_t kBytesPerTensorPage = 1536;
/// Of each page that an op asks for: recorded, kept and planned.
constexpr std::uint64_t kBytesPerAccess = 400;

/// Entries of 8 bytes for each 4 KiB that is mapped at a stable address.
std::uint64_t PageTableBytes(std::uint64_t bytes) { return bytes / 512; }
/// The ring keeps 16 bytes for each 4 KiB that is registered.
std::uint64_t RegistrationBytes(std::uint64_t bytes) { return bytes / 256; }

/// Core, mapper, planner, two of copies, and those of the options.
std::uint64_t ThreadsOf(const RuntimeOptions& options, const FrameCounts& frames) {
  constexpr std::uint64_t kAlways = 5;
  const std::uint64_t drives = frames.nvme == 0 ? 0 : 1 + options.io.more_directories.size();
  return kAlways + static_cast<std::uint64_t>(options.worker_threads) + drives;
}

}  // namespace

numa::MemorySum MemoryOf(const RuntimeOptions& options, const FrameCounts& frames) {
  const std::uint64_t page = options.page_bytes.count();
  const std::uint64_t dram = frames.dram * page;
  const std::uint64_t hbm = frames.hbm * page;
  const std::uint64_t all = std::uint64_t{frames.dram} + frames.hbm + frames.nvme;
  numa::MemorySum sum;
  sum.Add({"frames of dram", dram, numa::MemoryKind::kFrames});
  sum.Add({"frames of the emulated hbm", hbm, numa::MemoryKind::kFrames});
  sum.Add({fmt::format("tables of {} frames and slots", all), all * kBytesPerFrame});
  sum.Add({"the kernel's tables of mapped and registered memory",
           PageTableBytes(dram + hbm) + (frames.nvme > 0 ? RegistrationBytes(dram) : 0)});
  const std::uint64_t threads = ThreadsOf(options, frames);
  sum.Add({fmt::format("{} threads of the runtime", threads), threads * kThreadBytes});
  return sum;
}

numa::MemorySum MemoryOfTensors(std::uint64_t pages,
                                std::uint64_t page_accesses,
                                const RuntimeOptions& options) {
  const std::uint64_t accesses = std::min(page_accesses, options.recorded_accesses_max);
  numa::MemorySum sum;
  sum.Add({fmt::format("tables of {} pages of tensors", pages), pages * kBytesPerTensorPage});
  sum.Add({fmt::format("schedules of steps with {} accesses to pages", accesses),
           accesses * kBytesPerAccess});
  return sum;
}

std::uint64_t MappableFrames(std::uint64_t max_map_count) {
  return (max_map_count - std::min(max_map_count, kMappingsKept)) / kMappingsPerFrame;
}

absl::Status CheckMachine(const RuntimeOptions& options, const FrameCounts& frames) {
  SLUICE_ASSIGN_OR_RETURN(const numa::MemoryLimits limits, numa::ReadMemoryLimits());
  SLUICE_RETURN_IF_ERROR(numa::CheckFits(MemoryOf(options, frames),
                                         limits,
                                         "the runtime",
                                         "lower tiers.dram.bytes or tiers.hbm.bytes"));
  const std::uint64_t host_frames = std::uint64_t{frames.dram} + frames.hbm;
  if (host_frames <= MappableFrames(limits.max_map_count)) return absl::OkStatus();
  return absl::ResourceExhaustedError(fmt::format(
      "{} pages of {} may need {} mappings and the process {}, vm.max_map_count allows {}: raise "
      "it or use larger pages",
      host_frames,
      ToString(options.page_bytes),
      kMappingsPerFrame * host_frames,
      kMappingsKept,
      limits.max_map_count));
}

}  // namespace sluice::engine
