#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "numa/memory_limits.h"
#include "sluice/options.h"

namespace sluice::engine {

/// Default of MemoryOptions::keep_mappings. A debug build keeps none, to find uses after an
/// eviction.
bool KeepsMappingsUnlessTold();

/// Text of whole pages without rounding, so that it can be written as a budget.
std::string ExactSize(Bytes pages);

/// Default of RuntimeOptions::page_bytes.
Bytes DefaultPageBytes(const RuntimeOptions& options);

/// Divides io.queue_depth, io.bytes_in_flight and worker_threads among the processes of the share;
/// CountFrames divides the budgets. REQUIRES: options that CountFrames has checked, and not divided
/// yet.
void DivideCounts(RuntimeOptions* options);

/// Bytes of dram that the ring of each drive may lock. The processes of a share get equal parts of
/// RLIMIT_MEMLOCK, as the kernel counts the locked bytes of all processes of a user. Newer kernels
/// count rings, too, and a part has room for them: else the last process would lock nothing.
std::uint64_t LockedBytesMax(const numa::MemoryLimits& limits, const RuntimeOptions& options);

/// Whether a time in seconds is from 0 to a million, which the clocks can count with room to spare.
/// Errors: InvalidArgument that names key and value.
absl::Status CheckSeconds(std::string_view key, double seconds);

/// Whether a modelled rate in bytes per second is 0 (as fast as the host copies), or at least 1 and
/// finite. Errors: InvalidArgument that names key and value.
absl::Status CheckRate(std::string_view key, double bytes_per_second);

/// Whether threads can be bound to these processors. Errors: InvalidArgument that names
/// workers.cpus, and the processors that the machine does not have or this process may not use.
absl::Status CheckCpus(const std::vector<int>& cpus);

}  // namespace sluice::engine
