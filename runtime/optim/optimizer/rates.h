#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "sluice/optimizer.h"

namespace sluice::optim {

/// Whether a group may have the rates. Errors: InvalidArgument that names the group, the rate and
/// its limits.
absl::Status CheckRates(std::string_view group, const GroupRates& rates);

}  // namespace sluice::optim
