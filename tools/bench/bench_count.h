#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "tools/support/arguments.h"

namespace sluice::tools {

/// Reads a number from 1 to a million; leaves `count` as it is without the flag. Errors:
/// InvalidArgument.
absl::Status ReadCount(const Arguments& arguments, const char* flag, std::uint32_t* count);

}  // namespace sluice::tools
