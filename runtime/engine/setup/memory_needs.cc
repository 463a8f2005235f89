#include "runtime/engine/setup/memory_needs.h"

#include <algorithm>

#include "base/status.h"
#include "base/thread.h"
#include "fmt/format.h"

namespace sluice::engine {
namespace {

/// Mappings that the rest of the process may need.
constexpr std::uint64_t kMappingsKept = 4096;
/// A page mapped at its stable address, and the part of the reserved range that it cuts off.
constexpr std::uint64_t kMappingsPerFrame = 2;

/// Memory of the core, the policy and the page store for each frame or slot.
constexpr std::uint64_t kBytesPerFrame = 64;
// Heap of whole runs as measured, for steps of 236 and 944 ops and pages of 16 KiB to 256 KiB, and
// a fifth more. core::Page, in a vector that doubles, is a third of the first value.
constexpr std::uint64_t kBytesPerTensorPage = 1024;
constexpr std::uint64_t kBytesPerAccess = 128;
constexpr std::uint64_t kBytesPerOp = std::uint64_t{8} << 10;

/// Entries of 8 bytes for each 4 KiB that is mapped at a stable address.
std::uint64_t PageTableBytes(std::uint64_t bytes) { return bytes / 512; }
/// The ring keeps 16 bytes for each 4 KiB that is registered.
std::uint64_t RegistrationBytes(std::uint64_t bytes) { return bytes / 256; }

/// Whether hbm is memory of the host for certain. Otherwise CheckEmulatedHbm is asked once it is.
bool HbmIsOfHost(const RuntimeOptions& options) { return options.device == DeviceKind::kEmulated; }

absl::Status CheckMappings(std::uint64_t frames, Bytes page_bytes, std::uint64_t max_map_count) {
  if (frames <= MappableFrames(max_map_count)) return absl::OkStatus();
  return absl::ResourceExhaustedError(fmt::format(
      "{} pages of {} may need {} mappings and the process {}, vm.max_map_count allows {}: raise "
      "it or use larger pages",
      frames,
      ToString(page_bytes),
      kMappingsPerFrame * frames,
      kMappingsKept,
      max_map_count));
}

/// Core, mapper, planner, two of copies, and those of the options.
std::uint64_t ThreadsOf(const RuntimeOptions& options, const FrameCounts& frames) {
  constexpr std::uint64_t kAlways = 5;
  const std::uint64_t drives = frames.nvme == 0 ? 0 : 1 + options.io.more_directories.size();
  return kAlways + static_cast<std::uint64_t>(options.worker_threads) + drives;
}

}  // namespace

void AddThreads(std::uint64_t threads, std::string_view whose, numa::MemorySum* sum) {
  const std::string name = fmt::format("{} threads {}", threads, whose);
  sum->Add({name, threads * kThreadBytes});
  const std::uint64_t stack = std::max(base::StackBytes(), kThreadBytes) - kThreadBytes;
  sum->Add({"the stacks of " + name, threads * stack, numa::MemoryKind::kStacks});
}

numa::MemorySum MemoryOf(const RuntimeOptions& options, const FrameCounts& frames) {
  const std::uint64_t page = options.page_bytes.count();
  const std::uint64_t dram = frames.dram * page;
  const std::uint64_t hbm = HbmIsOfHost(options) ? frames.hbm * page : 0;
  const std::uint64_t all = std::uint64_t{frames.dram} + frames.hbm + frames.nvme;
  numa::MemorySum sum;
  sum.Add({"frames of dram", dram, numa::MemoryKind::kFrames});
  sum.Add({"frames of the emulated hbm", hbm, numa::MemoryKind::kFrames});
  sum.Add({fmt::format("tables of {} frames and slots", all), all * kBytesPerFrame});
  sum.Add({"the kernel's tables of mapped and registered memory",
           PageTableBytes(dram + hbm) + (frames.nvme > 0 ? RegistrationBytes(dram) : 0)});
  AddThreads(ThreadsOf(options, frames), "of the runtime", &sum);
  return sum;
}

numa::MemorySum MemoryOfJob(const JobSize& job, const RuntimeOptions& options) {
  const std::uint64_t recorded =
      std::min(job.ops + job.page_accesses, options.recorded_accesses_max);
  const std::uint64_t ops = std::min(job.ops, recorded);
  numa::MemorySum sum;
  sum.Add({fmt::format("tables of {} pages of tensors", job.tensor_pages),
           job.tensor_pages * kBytesPerTensorPage});
  sum.Add({"the stable addresses of tensors",
           job.tensor_pages * options.page_bytes.count(),
           numa::MemoryKind::kAddresses});
  sum.Add({fmt::format("schedules of steps of {} ops", job.ops),
           ops * kBytesPerOp + (recorded - ops) * kBytesPerAccess});
  return sum;
}

std::uint64_t MappableFrames(std::uint64_t max_map_count) {
  return (max_map_count - std::min(max_map_count, kMappingsKept)) / kMappingsPerFrame;
}

std::string_view WayToTakeLess(const RuntimeOptions& options, const FrameCounts& frames) {
  const std::uint64_t held = (std::uint64_t{frames.hbm} + frames.dram) * options.page_bytes.count();
  if (frames.nvme * kBytesPerFrame > held) return "lower tiers.nvme.bytes or use larger pages";
  return "lower tiers.dram.bytes or tiers.hbm.bytes";
}

absl::Status CheckMachine(const RuntimeOptions& options, const FrameCounts& frames) {
  SLUICE_ASSIGN_OR_RETURN(const numa::MemoryLimits limits, numa::ReadMemoryLimits());
  SLUICE_RETURN_IF_ERROR(numa::CheckFits(
      MemoryOf(options, frames), limits, "the runtime", WayToTakeLess(options, frames)));
  const std::uint64_t hbm = HbmIsOfHost(options) ? frames.hbm : 0;
  return CheckMappings(frames.dram + hbm, options.page_bytes, limits.max_map_count);
}

absl::Status CheckEmulatedHbm(const RuntimeOptions& options, const FrameCounts& frames) {
  SLUICE_ASSIGN_OR_RETURN(const numa::MemoryLimits limits, numa::ReadMemoryLimits());
  numa::MemorySum sum;
  sum.Add({"frames of the emulated hbm",
           frames.hbm * options.page_bytes.count(),
           numa::MemoryKind::kFrames});
  SLUICE_RETURN_IF_ERROR(
      numa::CheckFits(sum, limits, "the emulated device", "lower tiers.hbm.bytes"));
  return CheckMappings(
      std::uint64_t{frames.dram} + frames.hbm, options.page_bytes, limits.max_map_count);
}

absl::Status CheckViewPages(std::uint64_t pages, const TierSet& tiers) {
  SLUICE_ASSIGN_OR_RETURN(const numa::MemoryLimits limits, numa::ReadMemoryLimits());
  std::uint64_t needed = pages + kMappingsKept;
  for (core::TierIndex tier = 0; tier < tiers.size(); ++tier) {
    const bool of_host =
        !tiers.is_store(tier) && tiers.exists(tier) && tiers.memory(tier)->host_accessible();
    if (of_host) needed += kMappingsPerFrame * tiers.tier(tier).frames;
  }
  if (needed <= limits.max_map_count) return absl::OkStatus();
  return absl::ResourceExhaustedError(fmt::format(
      "{} pages of tensors that are readable outside a lease, the frames and the process may need "
      "{} mappings, vm.max_map_count allows {}: raise it, use larger pages, or set off_lease to "
      "none",
      pages,
      needed,
      limits.max_map_count));
}

absl::Status CheckGrowth(TierId tier, std::uint64_t bytes) {
  SLUICE_ASSIGN_OR_RETURN(numa::MemoryLimits limits, numa::ReadMemoryLimits());
  limits.address_bytes.reset();
  numa::ChooseTightest(&limits);
  numa::MemorySum sum;
  sum.Add({fmt::format("frames of {}", ToString(tier)), bytes, numa::MemoryKind::kFrames});
  return numa::CheckFits(sum, limits, "the larger budget", "name a smaller one");
}

}  // namespace sluice::engine
