#include "numa/topology_calls.h"

#include <numaif.h>
#include <sched.h>

#include <cerrno>
#include <climits>
#include <cstddef>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/strings.h"

namespace sluice::numa {
namespace {

using Words = std::vector<unsigned long>;
constexpr std::size_t kWordBits = sizeof(unsigned long) * CHAR_BIT;
/// More processors and nodes than Linux can have (8192 and 1024).
constexpr std::size_t kBitsMax = std::size_t{1} << 15;

int AskAffinity(Words& set) {
  auto* cpus = reinterpret_cast<cpu_set_t*>(set.data());
  return sched_getaffinity(0, set.size() * sizeof(unsigned long), cpus) == 0 ? 0 : errno;
}

/// Any other error than EINVAL is an answer to hwloc: containers refuse this call with EPERM.
int AskPolicy(Words& set) {
  int mode = MPOL_DEFAULT;
  if (get_mempolicy(&mode, set.data(), set.size() * kWordBits, nullptr, 0) == 0) return 0;
  return errno == EINVAL ? EINVAL : 0;
}

/// The errno of `ask`, with ever more room while EINVAL may say that there is too little.
int ErrorOf(int (*ask)(Words& set)) {
  int error = EINVAL;
  for (std::size_t bits = kWordBits; error == EINVAL && bits <= kBitsMax; bits *= 2) {
    Words set(bits / kWordBits);
    error = ask(set);
  }
  return error;
}

absl::Status Refused(std::string_view call, int error_number) {
  return absl::FailedPreconditionError(absl::StrFormat(
      "%s is refused (%s), so hwloc cannot read the topology of this machine; allow "
      "the call in the seccomp profile of the container",
      base::ToAbsl(call),
      base::ToAbsl(base::ErrnoName(error_number))));
}

}  // namespace

absl::Status CheckTopologyCalls() {
  if (const int error = ErrorOf(AskAffinity); error != 0) {
    return Refused("sched_getaffinity", error);
  }
  if (const int error = ErrorOf(AskPolicy); error != 0) return Refused("get_mempolicy", error);
  return absl::OkStatus();
}

}  // namespace sluice::numa
