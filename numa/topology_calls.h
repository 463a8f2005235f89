#pragma once

#include "absl/status/status.h"

namespace sluice::numa {

/// Makes the system calls once that hwloc's Linux back end repeats until they succeed (2.9:
/// sched_getaffinity after any error, get_mempolicy after EINVAL, each with twice the room). hwloc
/// would go on for ever where a container refuses them. Errors: FailedPrecondition that names call,
/// errno and fix.
absl::Status CheckTopologyCalls();

}  // namespace sluice::numa
