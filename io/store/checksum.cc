#include "io/store/checksum.h"

#include <array>

#include "io/store/xxh3.h"

namespace sluice::io {

std::uint64_t PageChecksum(const PageIdentity& identity, std::span<const std::byte> data) {
  const std::array<std::uint64_t, 3> words = {identity.segment, identity.page, identity.generation};
  const std::uint64_t seed = Xxh3(words.data(), sizeof(words), 0);
  return Xxh3(data.data(), data.size(), seed);
}

}  // namespace sluice::io
