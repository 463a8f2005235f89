#pragma once

#include "absl/status/status.h"

namespace sluice::numa {

/// Makes the system calls once that hwloc's Linux back end repeats until they succeed. hwloc 2.9
/// repeats sched_getaffinity after any error, and get_mempolicy after EINVAL, each with twice the
/// room. It would go on for ever where a container refuses them. Errors: FailedPrecondition that
/// names call, errno and fix.
absl::Status CheckTopologyCalls();

}  // namespace sluice::numa
