#include "runtime/engine/setup/option_limits.h"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <limits>
#include <string>

#include "base/status.h"
#include "fmt/format.h"

namespace sluice::engine {
namespace {

constexpr double kSecondsMax = 1e6;

/// Bytes of a ring, at most: both queues, and what they are rounded up to.
std::uint64_t RingBytes(std::uint32_t queue_depth) {
  return 128 * std::bit_ceil(std::uint64_t{queue_depth} + 1) + (16_KiB).count();
}

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

std::string ExactSize(Bytes pages) {
  const std::uint64_t kibibytes = pages.count() >> 10;
  return kibibytes % 1024 == 0 ? fmt::format("{} MiB", kibibytes / 1024)
                               : fmt::format("{} KiB", kibibytes);
}

Bytes DefaultPageBytes(const RuntimeOptions& options) {
  constexpr Bytes kLeast = 2_MiB;
  constexpr Bytes kMost = 16_MiB;
  constexpr std::uint64_t kPagesLeast = 256;
  if (options.device == DeviceKind::kEmulated) return kLeast;
  const std::uint64_t processes = std::max(options.share.count, 1u);
  const auto holds = [](Bytes tier, std::uint64_t divide_by, Bytes page) {
    return tier == Bytes() || tier.count() / divide_by / page.count() >= kPagesLeast;
  };
  Bytes page = kMost;
  while (page > kLeast &&
         !(holds(options.hbm_bytes, 1, page) && holds(options.dram_bytes, processes, page) &&
           holds(options.nvme_bytes, processes, page))) {
    page = Bytes(page.count() / 2);
  }
  return page;
}

void DivideCounts(RuntimeOptions* options) {
  const std::uint32_t processes = options->share.count;
  IoOptions& io = options->io;
  io.queue_depth = std::max(1u, io.queue_depth / processes);
  io.bytes_in_flight = Bytes(io.bytes_in_flight.count() / processes);
  const auto threads = static_cast<std::uint32_t>(options->worker_threads) / processes;
  options->worker_threads = static_cast<int>(std::max(1u, threads));
}

std::uint64_t LockedBytesMax(const numa::MemoryLimits& limits, const RuntimeOptions& options) {
  const bool limited = limits.memlock_bytes && !limits.memlock_exempt;
  if (!limited || options.share.count <= 1) return std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t drives = 1 + options.io.more_directories.size();
  const std::uint64_t part = *limits.memlock_bytes / options.share.count / drives;
  // The ring of the drive, and that of the files of homes.
  return part - std::min(part, 2 * RingBytes(options.io.queue_depth));
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
