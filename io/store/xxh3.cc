#include "io/store/xxh3.h"

// The plain symbols of a distribution's library are its baseline's (SSE2); the dispatching ones use
// what the processor has. The results are the same.
#if defined(__x86_64__)
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

namespace sluice::io {
namespace {

/// Size from which prefetching pays. A smaller page ends before its first prefetched bytes arrive.
constexpr std::size_t kBytesMin = std::size_t{16} << 10;

using Xxh3Fn = std::uint64_t (*)(const void* data, std::size_t bytes, std::uint64_t seed);

Xxh3Fn BestXxh3() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return Xxh3Avx512;
  if (__builtin_cpu_supports("avx2")) return Xxh3Avx2;
#endif
  return Xxh3OfLibrary;
}

}  // namespace

std::uint64_t Xxh3OfLibrary(const void* data, std::size_t bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(data, bytes, seed);
}

std::uint64_t Xxh3(const void* data, std::size_t bytes, std::uint64_t seed) {
  static const Xxh3Fn kBest = BestXxh3();
  return bytes < kBytesMin ? Xxh3OfLibrary(data, bytes, seed) : kBest(data, bytes, seed);
}

}  // namespace sluice::io
