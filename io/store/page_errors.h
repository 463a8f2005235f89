#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "io/engine/transfer.h"
#include "io/store/page_operation.h"

namespace sluice::io {

/// "slot 3: page 7 of segment 1, generation 2: WHAT"
std::string Describe(const PageAddress& address, std::string_view what);

/// Status of a page whose transfer has failed for good. Marks faults of the medium and of the
/// drive (medium_fault.h).
absl::Status DescribeFailure(const PageAddress& address,
                             IoDirection direction,
                             const TransferResult& result);

}  // namespace sluice::io
