#if defined(__x86_64__)
#include "io/store/xxh3.h"
#include "io/store/xxh3_inline.h"

#if XXH_VECTOR != XXH_AVX512
#error "compile this for AVX-512"
#endif

namespace sluice::io {

std::uint64_t Xxh3Avx512(const void* data, std::size_t bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(data, bytes, seed);
}

}  // namespace sluice::io

#endif  // __x86_64__
