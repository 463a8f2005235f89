#include "runtime/sim/simulator/machine.h"

#include <algorithm>

namespace sluice::sim {

MachinePath Together(const MachineLink& link) {
  if (link.paths.size() == 1) return link.paths.front();
  MachinePath sum;
  bool shared = false;
  for (const MachinePath& path : link.paths) {
    const double apart = path.in_bytes_per_s + path.out_bytes_per_s;
    const double both = path.both_bytes_per_s;
    sum.in_bytes_per_s += path.in_bytes_per_s;
    sum.out_bytes_per_s += path.out_bytes_per_s;
    sum.both_bytes_per_s += both > 0 ? std::min(both, apart) : apart;
    sum.latency_s = std::max(sum.latency_s, path.latency_s);
    sum.serial = sum.serial || path.serial;
    shared = shared || both > 0;
  }
  if (!shared) sum.both_bytes_per_s = 0;
  return sum;
}

}  // namespace sluice::sim
