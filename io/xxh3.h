#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::io {

/// XXH3-64 with what the processor has, and memory asked for 4 KiB before it is hashed.
/// The library's own asks for 384 or 512, which keeps fewer lines on their way than a page that is
/// in no cache takes: on an AMD EPYC it hashed 34 GiB/s, this 37, a pass that only reads 38.5.
std::uint64_t Xxh3(const void* data, std::size_t bytes, std::uint64_t seed);

/// The same for one instruction set. REQUIRES: the processor has it.
std::uint64_t Xxh3Portable(const void* data, std::size_t bytes, std::uint64_t seed);
#if defined(__x86_64__)
std::uint64_t Xxh3Avx2(const void* data, std::size_t bytes, std::uint64_t seed);
std::uint64_t Xxh3Avx512(const void* data, std::size_t bytes, std::uint64_t seed);
#endif

}  // namespace sluice::io
