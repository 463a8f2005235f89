#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::io {

/// XXH3-64 with the instructions that the processor has. Input from 16 KiB on is prefetched 4 KiB
/// ahead of the hash. The library's own hash prefetches 384 or 512 bytes ahead, too little for a
/// page that is in no cache. Pages of 2 MiB on an AMD EPYC:
/// - the library's hash: 34 GiB/s
/// - this one: 37 GiB/s
/// - a pass that only reads: 38.5 GiB/s
std::uint64_t Xxh3(const void* data, std::size_t bytes, std::uint64_t seed);

/// The library's own hash.
std::uint64_t Xxh3OfLibrary(const void* data, std::size_t bytes, std::uint64_t seed);
#if defined(__x86_64__)
// Hashes that prefetch 4 KiB ahead. REQUIRES: the processor has the instructions.
std::uint64_t Xxh3Avx2(const void* data, std::size_t bytes, std::uint64_t seed);
std::uint64_t Xxh3Avx512(const void* data, std::size_t bytes, std::uint64_t seed);
#endif

}  // namespace sluice::io
