#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "io/store/page_store.h"

namespace sluice::io {

/// XXH3-64 of the bytes under a seed that is the XXH3-64 of the identity. The same bytes under
/// another segment, page or generation have another checksum.
std::uint64_t PageChecksum(const PageIdentity& identity, std::span<const std::byte> data);

}  // namespace sluice::io
