#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "numa/arena.h"

/// What the addresses of a tensor show outside a lease, by mmap(2). Each call replaces what is
/// mapped at `at`, whole pages of the system; no child of fork gets it, nor a core dump. Errors:
/// those of the system; ResourceExhausted when the process has vm.max_map_count mappings.

namespace sluice::engine {

/// Zeros, without memory behind them.
absl::Status MapZeros(std::span<std::byte> at);
/// A file's bytes from `offset` on, through the page cache. Errors: InvalidArgument (the offset is
/// no multiple of the system's page).
absl::Status MapFile(std::span<std::byte> at, int fd, std::uint64_t offset);
/// Nothing: a touch is a SIGSEGV.
absl::Status MapNothing(std::span<std::byte> at);
/// Changes what is allowed at `at`, and leaves what is mapped there.
absl::Status Allow(std::span<std::byte> at, numa::MapAccess access);

}  // namespace sluice::engine
