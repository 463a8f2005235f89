#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "tools/support/arguments.h"

namespace sluice::tools {

/// The page size that `--page` gives, in bytes; else `otherwise`. Errors: InvalidArgument (not a
/// power of two from 4 KiB to 64 MiB).
absl::StatusOr<std::uint64_t> ReadPageFlag(const Arguments& arguments, std::uint64_t otherwise);

}  // namespace sluice::tools
