#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::bench {

/// Whether this processor has the instruction (SSE 4.2).
bool HasCrc32c();

/// CRC-32C (Castagnoli) by the processor's instruction, in three streams that hide its latency: the
/// alternative to io::PageChecksum. REQUIRES: HasCrc32c(). Source: RFC 3720, B.4 (vectors).
std::uint32_t Crc32c(std::span<const std::byte> data);

}  // namespace sluice::bench
