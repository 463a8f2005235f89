#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "runtime/core/core.h"
#include "runtime/engine/setup/frame_counts.h"
#include "runtime/engine/setup/option_limits.h"
#include "sluice/options.h"

namespace sluice {
namespace {

/// Reads a whole number within [min, max] into any integer type.
template <typename T>
absl::Status ReadInteger(
    Config& config, std::string_view key, std::int64_t min, std::int64_t max, T* value) {
  auto number = static_cast<std::int64_t>(*value);
  SLUICE_RETURN_IF_ERROR(config.Read(key, &number));
  if (number < min || number > max) {
    return absl::InvalidArgumentError(
        fmt::format("\"{}\" is {}; allowed are {} to {}", key, number, min, max));
  }
  *value = static_cast<T>(number);
  return absl::OkStatus();
}

absl::Status ReadSeconds(Config& config, std::string_view key, double* value) {
  SLUICE_RETURN_IF_ERROR(config.Read(key, value));
  return engine::CheckSeconds(key, *value);
}

/// A rate is written like a size: "8GiB" means 8 GiB/s.
absl::Status ReadRate(Config& config, std::string_view key, double* value) {
  Bytes bytes(static_cast<std::uint64_t>(*value));
  SLUICE_RETURN_IF_ERROR(config.Read(key, &bytes));
  *value = static_cast<double>(bytes.count());
  return absl::OkStatus();
}

absl::Status ReadPageBytes(Config& config, RuntimeOptions* options) {
  options->page_bytes = engine::DefaultPageBytes(*options);
  SLUICE_RETURN_IF_ERROR(config.Read("page_bytes", &options->page_bytes));
  return engine::CheckPageBytes("\"page_bytes\"", options->page_bytes);
}

absl::Status ReadTiers(Config& config, RuntimeOptions* options) {
  SLUICE_RETURN_IF_ERROR(config.Read("tiers.hbm.bytes", &options->hbm_bytes));
  SLUICE_RETURN_IF_ERROR(config.Read("tiers.dram.bytes", &options->dram_bytes));
  SLUICE_RETURN_IF_ERROR(config.Read("tiers.nvme.bytes", &options->nvme_bytes));
  SLUICE_RETURN_IF_ERROR(config.Read("tiers.nvme.keep_free", &options->io.keep_free));
  SLUICE_RETURN_IF_ERROR(config.Read("tiers.nvme.directory", &options->io.directory));
  return config.Read("tiers.nvme.more_directories", &options->io.more_directories);
}

/// `device = "emulated"` alone, or `kind` in a [device] section.
absl::Status ReadDeviceKind(Config& config, RuntimeOptions* options) {
  constexpr std::array kKinds = {std::pair("emulated", DeviceKind::kEmulated),
                                 std::pair("cuda", DeviceKind::kCuda),
                                 std::pair("auto", DeviceKind::kAuto)};
  std::string wanted = "emulated";
  const std::string_view key = config.Has("device") ? "device" : "device.kind";
  SLUICE_RETURN_IF_ERROR(config.Read(key, &wanted));
  for (const auto& [name, kind] : kKinds) {
    if (wanted != name) continue;
    options->device = kind;
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("\"{}\" is \"{}\"; allowed are emulated, cuda, auto", key, wanted));
}

absl::Status ReadDevice(Config& config, RuntimeOptions* options) {
  SLUICE_RETURN_IF_ERROR(ReadDeviceKind(config, options));
  SLUICE_RETURN_IF_ERROR(config.Read("device.cuda.gpu", &options->cuda.gpu));
  EmulatedDeviceOptions& emulated = options->emulated;
  SLUICE_RETURN_IF_ERROR(
      ReadRate(config, "device.emulated.in_bytes_per_second", &emulated.in_bytes_per_second));
  SLUICE_RETURN_IF_ERROR(
      ReadRate(config, "device.emulated.out_bytes_per_second", &emulated.out_bytes_per_second));
  return ReadSeconds(config, "device.emulated.latency_seconds", &emulated.latency_seconds);
}

/// Keys of before, and what takes their place.
struct OldKey {
  std::string_view key;
  std::string_view now;
  std::string_view value;
};
constexpr std::array kOldKeys = {
    OldKey{"io.require_io_uring", "io.io_uring", "require"},
    OldKey{"io.disable_io_uring", "io.io_uring", "off"},
    OldKey{"io.require_direct", "io.direct", "require"},
    OldKey{"io.disable_direct", "io.direct", "off"},
    OldKey{"io.require_nocow", "io.nocow", "require"},
    OldKey{"io.require_reserved_space", "io.reserved_space", "require"},
    OldKey{"memory.require_huge_pages", "memory.huge_pages", "require"},
    OldKey{"memory.require_numa_binding", "memory.numa_binding", "require"},
    OldKey{"memory.require_even_split", "memory.even_split", "require"},
};

absl::Status RefuseOldKeys(const Config& config) {
  for (const OldKey& old : kOldKeys) {
    if (!config.Has(old.key)) continue;
    return absl::InvalidArgumentError(
        fmt::format("\"{}\" is gone: write {} = \"{}\" for true, and \"auto\" or nothing for false",
                    old.key,
                    old.now,
                    old.value));
  }
  return absl::OkStatus();
}

absl::Status ReadUse(Config& config, std::string_view key, Use* use) {
  std::string text(ToString(*use));
  SLUICE_RETURN_IF_ERROR(config.Read(key, &text));
  for (const Use each : {Use::kAuto, Use::kRequire, Use::kOff}) {
    if (text != ToString(each)) continue;
    *use = each;
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("\"{}\" is \"{}\"; allowed are \"auto\", \"require\", \"off\"", key, text));
}

absl::Status ReadIo(Config& config, IoOptions* io) {
  SLUICE_RETURN_IF_ERROR(ReadInteger(config, "io.queue_depth", 1, 1024, &io->queue_depth));
  SLUICE_RETURN_IF_ERROR(config.Read("io.bytes_in_flight", &io->bytes_in_flight));
  SLUICE_RETURN_IF_ERROR(config.Read("io.merge", &io->merge));
  SLUICE_RETURN_IF_ERROR(ReadUse(config, "io.io_uring", &io->io_uring));
  SLUICE_RETURN_IF_ERROR(ReadUse(config, "io.direct", &io->direct));
  SLUICE_RETURN_IF_ERROR(ReadUse(config, "io.nocow", &io->nocow));
  return ReadUse(config, "io.reserved_space", &io->reserved_space);
}

absl::Status ReadMemory(Config& config, MemoryOptions* memory) {
  SLUICE_RETURN_IF_ERROR(ReadUse(config, "memory.huge_pages", &memory->huge_pages));
  SLUICE_RETURN_IF_ERROR(ReadUse(config, "memory.numa_binding", &memory->numa_binding));
  SLUICE_RETURN_IF_ERROR(ReadUse(config, "memory.even_split", &memory->even_split));
  SLUICE_RETURN_IF_ERROR(ReadUse(config, "memory.off_lease", &memory->off_lease));
  bool keeps = engine::KeepsMappingsUnlessTold();
  SLUICE_RETURN_IF_ERROR(config.Read("memory.keep_mappings", &keeps));
  if (config.Has("memory.keep_mappings")) memory->keep_mappings = keeps;
  return absl::OkStatus();
}

absl::Status ReadCpus(Config& config, RuntimeOptions* options) {
  std::vector<std::int64_t> cpus;
  SLUICE_RETURN_IF_ERROR(config.Read("workers.cpus", &cpus));
  if (!config.Has("workers.cpus")) return absl::OkStatus();
  options->cpus.clear();
  for (const std::int64_t cpu : cpus) {
    if (cpu < 0 || cpu > std::numeric_limits<int>::max()) {
      return absl::InvalidArgumentError(
          fmt::format("\"workers.cpus\" holds {}; processors count from 0", cpu));
    }
    options->cpus.push_back(static_cast<int>(cpu));
  }
  return absl::OkStatus();
}

absl::Status ReadScheduling(Config& config, RuntimeOptions* options) {
  SLUICE_RETURN_IF_ERROR(config.Read("scheduler.policy", &options->policy));
  const std::vector<std::string> names = core::PolicyNames();
  if (std::find(names.begin(), names.end(), options->policy) == names.end()) {
    return absl::InvalidArgumentError(
        fmt::format("\"scheduler.policy\" is \"{}\"; allowed are {}{}",
                    options->policy,
                    fmt::join(names, ", "),
                    base::DidYouMean(options->policy, names)));
  }
  SLUICE_RETURN_IF_ERROR(
      ReadInteger(config, "scheduler.prefetch_ops", 0, 1'000'000, &options->prefetch_ops));
  SLUICE_RETURN_IF_ERROR(
      ReadInteger(config, "scheduler.schedules_max", 1, 1 << 20, &options->schedules_max));
  SLUICE_RETURN_IF_ERROR(ReadInteger(config,
                                     "scheduler.recorded_accesses_max",
                                     1,
                                     std::int64_t{1} << 40,
                                     &options->recorded_accesses_max));
  SLUICE_RETURN_IF_ERROR(ReadInteger(config, "workers.threads", 1, 1024, &options->worker_threads));
  SLUICE_RETURN_IF_ERROR(ReadCpus(config, options));
  SLUICE_RETURN_IF_ERROR(
      ReadInteger(config, "request_queue_capacity", 1, 1 << 24, &options->request_queue_capacity));
  return ReadSeconds(config, "stall_seconds", &options->stall_seconds);
}

}  // namespace

absl::StatusOr<RuntimeOptions> ReadRuntimeOptions(Config& config) {
  RuntimeOptions options;
  SLUICE_RETURN_IF_ERROR(RefuseOldKeys(config));
  SLUICE_RETURN_IF_ERROR(ReadTiers(config, &options));
  SLUICE_RETURN_IF_ERROR(ReadDevice(config, &options));
  SLUICE_RETURN_IF_ERROR(ReadPageBytes(config, &options));
  SLUICE_RETURN_IF_ERROR(ReadMemory(config, &options.memory));
  SLUICE_RETURN_IF_ERROR(ReadIo(config, &options.io));
  SLUICE_RETURN_IF_ERROR(ReadScheduling(config, &options));
  return options;
}

}  // namespace sluice
