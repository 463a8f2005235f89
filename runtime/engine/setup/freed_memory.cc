#include "sluice/freed_memory.h"

#include <malloc.h>

#include <algorithm>
#include <cstdint>

#include "numa/memory_limits.h"

namespace sluice {
namespace {

constexpr std::uint64_t kNextBytesMin = std::uint64_t{4} << 20;
constexpr std::uint64_t kNextBytesMax = std::uint64_t{64} << 20;

}  // namespace

ReturnedMemory ReturnFreedMemory() {
  const auto limits = numa::ReadMemoryLimits();
  ReturnedMemory returned{.was_short = true, .next_bytes = kNextBytesMax};
  if (limits.ok()) {
    returned.was_short = limits->is_short();
    returned.next_bytes = std::clamp(limits->available_bytes / 8, kNextBytesMin, kNextBytesMax);
  }
  if (returned.was_short) malloc_trim(0);
  return returned;
}

}  // namespace sluice
