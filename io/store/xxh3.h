#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::io {

/// XXH3-64 with what the processor has. From 16 KiB on memory is asked for 4 KiB ahead of what is
/// hashed. The library's own asks 384 or 512 bytes ahead, which keeps fewer lines on their way than
/// a page that is in no cache takes: on an AMD EPYC it hashed pages of 2 MiB at 34 GiB/s, this at
/// 37, a pass that only reads at 38.5.
std::uint64_t Xxh3(const void* data, std::size_t bytes, std::uint64_t seed);

/// The library's.
std::uint64_t Xxh3OfLibrary(const void* data, std::size_t bytes, std::uint64_t seed);
#if defined(__x86_64__)
// Asking 4 KiB ahead. REQUIRES: the processor has the instructions.
std::uint64_t Xxh3Avx2(const void* data, std::size_t bytes, std::uint64_t seed);
std::uint64_t Xxh3Avx512(const void* data, std::size_t bytes, std::uint64_t seed);
#endif

}  // namespace sluice::io
