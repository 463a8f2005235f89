#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "io/file/spill_directory.h"

namespace sluice::bench {

/// Whether the directory's file system has room for `bytes` of `what` ("files"), and a share that
/// stays free: a full file system hurts others, and a nearly full one is slow. Errors:
/// ResourceExhausted that says what there is and what is needed; those of statvfs(3).
absl::Status CheckFreeSpace(const io::SpillDirectory& directory,
                            std::uint64_t bytes,
                            std::string_view what);

/// Whether `bytes` of memory are available, for `what`; `fix`: how to need less. Errors:
/// those of numa::CheckFits and ReadMemoryLimits.
absl::Status CheckFreeMemory(std::uint64_t bytes, std::string_view what, std::string_view fix);

}  // namespace sluice::bench
