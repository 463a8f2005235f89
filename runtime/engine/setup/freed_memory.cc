#include "sluice/freed_memory.h"

#include <malloc.h>

#include "numa/memory_limits.h"

namespace sluice {

bool ReturnFreedMemory() {
  const auto limits = numa::ReadMemoryLimits();
  if (limits.ok() && !limits->is_short()) return false;
  malloc_trim(0);
  return true;
}

}  // namespace sluice
