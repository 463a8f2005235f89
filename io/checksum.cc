#include "io/checksum.h"

#include <array>

#include "io/mutants.h"

// The plain XXH3 symbols of a distribution's library are its baseline's (SSE2); the dispatching
// ones use what the processor has. The results are the same.
#if defined(__x86_64__)
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

namespace sluice::io {

std::uint64_t PageChecksum(const PageIdentity& identity, std::span<const std::byte> data) {
  const std::array<std::uint64_t, 3> words = {
      identity.segment,
      SLUICE_MUTANT("checksum-without-page") ? 0 : identity.page,
      SLUICE_MUTANT("checksum-without-generation") ? 0 : identity.generation};
  if (SLUICE_MUTANT("checksum-of-the-first-half")) data = data.first(data.size() / 2);
  const std::uint64_t seed = XXH3_64bits(words.data(), sizeof(words));
  return XXH3_64bits_withSeed(data.data(), data.size(), seed);
}

}  // namespace sluice::io
