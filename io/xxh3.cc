#include "io/xxh3.h"

#include "io/xxh3_inline.h"

namespace sluice::io {
namespace {

using Xxh3Fn = std::uint64_t (*)(const void* data, std::size_t bytes, std::uint64_t seed);

Xxh3Fn BestXxh3() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return Xxh3Avx512;
  if (__builtin_cpu_supports("avx2")) return Xxh3Avx2;
#endif
  return Xxh3Portable;
}

}  // namespace

std::uint64_t Xxh3Portable(const void* data, std::size_t bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(data, bytes, seed);
}

std::uint64_t Xxh3(const void* data, std::size_t bytes, std::uint64_t seed) {
  static const Xxh3Fn best = BestXxh3();
  return best(data, bytes, seed);
}

}  // namespace sluice::io
