#pragma once

#include <vector>

#include "runtime/sim/schedule/file_schedule.h"

namespace sluice::sim {

/// The bytes of the accesses, each once: by rising tensor, and within it by rising ranges that do
/// not touch.
std::vector<FileAccess> MergeAccesses(std::vector<FileAccess> accesses);

}  // namespace sluice::sim
