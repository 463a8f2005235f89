#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "numa/arena.h"

/// Mappings that the addresses of a tensor have outside a lease, by mmap(2). Each call replaces the
/// mapping at `at`, whole pages of the system. Neither a child of fork nor a core dump gets it.
/// Errors: those of the system; ResourceExhausted when the process has vm.max_map_count mappings.

namespace sluice::engine {

/// Maps zeros, without memory behind them.
absl::Status MapZeros(std::span<std::byte> at);
/// Maps a file's bytes from `offset` on, through the page cache. Errors: InvalidArgument (the
/// offset is no multiple of the system's page).
absl::Status MapFile(std::span<std::byte> at, int fd, std::uint64_t offset);
/// Maps nothing: a touch is a SIGSEGV.
absl::Status MapNothing(std::span<std::byte> at);
/// Changes the access allowed at `at`. The mapping stays.
absl::Status Allow(std::span<std::byte> at, numa::MapAccess access);

}  // namespace sluice::engine
