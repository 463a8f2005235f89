#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "sluice/runtime.h"

namespace sluice::engine {

/// Implements Runtime::OpenWeights.
absl::StatusOr<std::vector<Weight>> OpenWeights(Runtime& runtime,
                                                const std::string& path,
                                                const WeightOptions& options);

}  // namespace sluice::engine
