// Intervals for a profiler, in a build without CUDA.
#include "runtime/engine/report/profiler_ranges.h"

namespace sluice::engine {

bool ProfilerListens() { return false; }

std::uint64_t ProfilerRange::Open(ProfilerCategory, const std::string&) { return 0; }
void ProfilerRange::Close(std::uint64_t) {}

}  // namespace sluice::engine
