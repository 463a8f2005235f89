#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "numa/memory_limits.h"
#include "sluice/options.h"

namespace sluice::engine {

/// MemoryOptions::keep_mappings where it is not set: a debug build is for finding a use after an
/// eviction.
bool KeepsMappingsUnlessTold();

/// RuntimeOptions::page_bytes where it is 0.
Bytes DefaultPageBytes(const RuntimeOptions& options);

/// Bytes that the ring of each of `drives` may lock, so that the processes of a share have equal
/// parts of RLIMIT_MEMLOCK: the kernel counts what all processes of a user lock.
std::uint64_t LockedBytesMax(const numa::MemoryLimits& limits,
                             const Share& share,
                             std::size_t drives);

/// A time in seconds, from 0 to a million: what the clocks can count with room to spare. Errors:
/// InvalidArgument that names key and value.
absl::Status CheckSeconds(std::string_view key, double seconds);

/// A modelled rate in bytes per second: 0 (as fast as the host copies), or at least 1 and finite.
/// Errors: InvalidArgument that names key and value.
absl::Status CheckRate(std::string_view key, double bytes_per_second);

/// Processors that threads can be bound to. Errors: InvalidArgument that names workers.cpus and
/// those which the machine does not have or this process may not use.
absl::Status CheckCpus(const std::vector<int>& cpus);

}  // namespace sluice::engine
