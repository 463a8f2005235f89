#pragma once

#include <cstddef>
#include <functional>

namespace sluice::bench {

/// Unit in which a tensor is cut between threads.
inline constexpr std::size_t kPartUnit = 4096;

/// Processors that this process may run on, at least 1.
std::size_t AllowedProcessors();

using PartFn = std::function<void(std::size_t begin, std::size_t end)>;

/// Nanoseconds per parameter of `work` over the parts of a tensor, one on each thread. REQUIRES:
/// `parameters` a multiple of kPartUnit, more than 0.
double MeasureParts(std::size_t parameters, std::size_t threads, const PartFn& work);

}  // namespace sluice::bench
