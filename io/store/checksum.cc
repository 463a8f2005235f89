#include "io/store/checksum.h"

#include <array>

#include "io/store/mutants.h"
#include "io/store/xxh3.h"

namespace sluice::io {

std::uint64_t PageChecksum(const PageIdentity& identity, std::span<const std::byte> data) {
  const std::array<std::uint64_t, 3> words = {
      identity.segment,
      SLUICE_MUTANT("checksum-without-page") ? 0 : identity.page,
      SLUICE_MUTANT("checksum-without-generation") ? 0 : identity.generation};
  if (SLUICE_MUTANT("checksum-of-the-first-half")) data = data.first(data.size() / 2);
  const std::uint64_t seed = Xxh3(words.data(), sizeof(words), 0);
  return Xxh3(data.data(), data.size(), seed);
}

}  // namespace sluice::io
