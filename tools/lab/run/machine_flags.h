#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/sim/simulator/machine.h"

namespace sluice::tools {

/// Reads a machine from flags. `tiers`: "hbm=40GiB,dram=128GiB". `links`: each is
/// "NAME=IN[/OUT][/BOTH][,LATENCY][,half]", as "hbm-dram=15.754GiB/s,50us". Links of one name are
/// paths of one link. A link from the last tier of the list adds the tier that it leads to, as
/// large as needed. `serial`: latency occupies the links. Errors: InvalidArgument that names the
/// flag and the fix.
absl::StatusOr<sim::Machine> ParseMachine(const std::string& tiers,
                                          const std::vector<std::string>& links,
                                          bool serial);

/// Name of the machine's `link`: "hbm-dram".
std::string LinkName(const sim::Machine& machine, std::size_t link);

}  // namespace sluice::tools
