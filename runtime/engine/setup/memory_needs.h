#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "numa/memory_limits.h"
#include "numa/memory_sum.h"
#include "runtime/engine/setup/backends.h"
#include "sluice/options.h"
#include "sluice/tier.h"

namespace sluice::engine {

/// Memory of a thread: the used part of its stack, its part of the heap, and the kernel's tables.
inline constexpr std::uint64_t kThreadBytes = std::uint64_t{256} << 10;

/// Adds the memory of threads, and their stacks, most of which are addresses alone. `whose`: owner
/// of the threads, as in "of the runtime".
void AddThreads(std::uint64_t threads, std::string_view whose, numa::MemorySum* sum);

/// Memory of the host that a Runtime takes when it is made:
/// - frames of dram
/// - frames of the emulated hbm, unless the options name or seek a GPU (CheckEmulatedHbm)
/// - tables of frames and slots
/// - the kernel's tables of memory that is mapped and registered
/// - threads
/// Tables of tensors and of recorded schedules come with the tensors, see MemoryOfJob.
numa::MemorySum MemoryOf(const RuntimeOptions& options, const FrameCounts& frames);

/// Size of a job: pages of its tensors, and ops and page accesses of one step.
struct JobSize {
  std::uint64_t tensor_pages = 0;
  std::uint64_t ops = 0;
  std::uint64_t page_accesses = 0;  ///< page accesses of all ops, a page once per op
};

/// Memory that a job takes beside frames: tables of its pages, and schedules of its steps as they
/// are recorded, kept and planned. Few kinds of steps are taken to repeat.
numa::MemorySum MemoryOfJob(const JobSize& job, const RuntimeOptions& options);

/// The most frames of hbm and dram together that `max_map_count` mappings are enough for.
std::uint64_t MappableFrames(std::uint64_t max_map_count);

/// How a Runtime takes less memory, in words: the tier that takes the most, which is nvme where its
/// tables outgrow the frames.
std::string_view WayToTakeLess(const RuntimeOptions& options, const FrameCounts& frames);

/// Whether memory and mappings of this process suffice for MemoryOf. Errors: ResourceExhausted that
/// names the sum, the limit and the fix; those of numa::ReadMemoryLimits.
absl::Status CheckMachine(const RuntimeOptions& options, const FrameCounts& frames);

/// Whether memory suffices for hbm that no GPU has been found for, beside frames of dram that are
/// there. Errors: those of CheckMachine.
absl::Status CheckEmulatedHbm(const RuntimeOptions& options, const FrameCounts& frames);

/// Whether mappings suffice for `pages` pages of tensors that are readable outside a lease, beside
/// the mappings for the frames of `tiers`. Errors: ResourceExhausted that names the need and the
/// fix.
absl::Status CheckViewPages(std::uint64_t pages, const TierSet& tiers);

/// Whether memory is enough for `bytes` more frames of a tier, whose addresses are reserved.
/// Errors: those of CheckMachine.
absl::Status CheckGrowth(TierId tier, std::uint64_t bytes);

}  // namespace sluice::engine
