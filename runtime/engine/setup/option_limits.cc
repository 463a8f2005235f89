#include "runtime/engine/setup/option_limits.h"

#include <sched.h>

#include <cerrno>
#include <cmath>
#include <string>

#include "base/status.h"
#include "fmt/format.h"

namespace sluice::engine {
namespace {

constexpr double kSecondsMax = 1e6;

bool Allowed(int cpu, const cpu_set_t& allowed) {
  return cpu >= 0 && cpu < CPU_SETSIZE && CPU_ISSET(static_cast<std::size_t>(cpu), &allowed);
}

}  // namespace

bool KeepsMappingsUnlessTold() {
#ifdef NDEBUG
  return true;
#else
  return false;
#endif
}

absl::Status CheckSeconds(std::string_view key, double seconds) {
  if (seconds >= 0 && seconds <= kSecondsMax) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("\"{}\" is {}; allowed are 0 to {:.0f} seconds", key, seconds, kSecondsMax));
}

absl::Status CheckRate(std::string_view key, double bytes_per_second) {
  if (bytes_per_second == 0) return absl::OkStatus();
  if (bytes_per_second >= 1 && std::isfinite(bytes_per_second)) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "\"{}\" is {}; allowed are 0 (as fast as the host copies) and finite rates from 1 byte per "
      "second on",
      key,
      bytes_per_second));
}

absl::Status CheckCpus(const std::vector<int>& cpus) {
  if (cpus.empty()) return absl::OkStatus();
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
    return base::StatusFromErrno(errno, "sched_getaffinity");
  }
  std::string refused;
  for (const int cpu : cpus) {
    if (!Allowed(cpu, allowed)) refused += fmt::format("{}{}", refused.empty() ? "" : ", ", cpu);
  }
  if (refused.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "\"workers.cpus\" holds {}: no processors that this process may run on", refused));
}

}  // namespace sluice::engine
