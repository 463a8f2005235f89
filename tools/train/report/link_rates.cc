#include "tools/train/report/link_rates.h"

#include <algorithm>

#include "base/status.h"
#include "io/drives/disk_rates.h"
#include "numa/memory_limits.h"
#include "runtime/device/copy_rates.h"

namespace sluice::tools {
namespace {

constexpr std::uint64_t kDiskFileBytes = std::uint64_t{256} << 20;
/// An hbm budget from which on a measurement of copies takes its longest time.
constexpr std::uint64_t kLargeHbmBytes = std::uint64_t{64} << 20;

/// Milliseconds of one measurement of a tier: `longest` from `large_bytes` on, less in proportion
/// below, at least a fifth. So a small run starts soon.
std::uint32_t MillisecondsFor(std::uint64_t bytes,
                              std::uint64_t large_bytes,
                              std::uint32_t longest) {
  const std::uint64_t share = longest * std::min(bytes, large_bytes) / large_bytes;
  return std::max(static_cast<std::uint32_t>(share), longest / 5);
}

absl::StatusOr<LinkRates> MeasureDrive(const RuntimeOptions& options,
                                       const std::string& directory) {
  SLUICE_ASSIGN_OR_RETURN(const numa::MemoryLimits limits, numa::ReadMemoryLimits());
  const std::uint64_t page = options.page_bytes.count();
  const std::uint64_t drives = 1 + options.io.more_directories.size();
  const std::uint64_t budget = options.nvme_bytes.count() / drives / page * page;
  io::DiskRatesOptions disk{.directory = directory,
                            .file_bytes = std::max(page, std::min(kDiskFileBytes, budget)),
                            .keep_free_bytes = options.io.keep_free.count(),
                            .block_bytes = page,
                            .queue_depth = options.io.queue_depth,
                            .memory_bytes_max = limits.measuring_bytes(),
                            .io_uring = options.io.io_uring};
  disk.milliseconds = MillisecondsFor(disk.file_bytes, kDiskFileBytes, disk.milliseconds);
  SLUICE_ASSIGN_OR_RETURN(const io::DiskRates rates, io::MeasureDiskRates(disk));
  return LinkRates{rates.read, rates.write, rates.mixed};
}

/// Sum of the rates of all drives, which are measured one after another. No spreading of pages is
/// faster than this sum.
absl::StatusOr<LinkRates> MeasureDisk(const RuntimeOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(LinkRates sum, MeasureDrive(options, options.io.directory));
  for (const std::string& directory : options.io.more_directories) {
    SLUICE_ASSIGN_OR_RETURN(const LinkRates rates, MeasureDrive(options, directory));
    sum = {sum.in + rates.in, sum.out + rates.out, sum.both + rates.both};
  }
  return sum;
}

absl::StatusOr<LinkRates> MeasureCopies(const RuntimeOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(const numa::MemoryLimits limits, numa::ReadMemoryLimits());
  device::PlainCopyOptions copies =
      device::PlainCopiesWithin(options.page_bytes.count(), limits.measuring_bytes());
  copies.cpus = options.cpus;
  copies.milliseconds =
      MillisecondsFor(options.hbm_bytes.count(), kLargeHbmBytes, copies.milliseconds);
  SLUICE_ASSIGN_OR_RETURN(const device::CopyRates rates, device::MeasurePlainCopyRates(copies));
  return LimitRates(LinkRates{rates.in, rates.out, rates.both},
                    options.emulated.in_bytes_per_second,
                    options.emulated.out_bytes_per_second);
}

double Limit(double rate, double limit) { return limit > 0 ? std::min(rate, limit) : rate; }

}  // namespace

LinkRates LimitRates(const LinkRates& rates,
                     double in_bytes_per_second,
                     double out_bytes_per_second) {
  const LinkRates limited{
      Limit(rates.in, in_bytes_per_second), Limit(rates.out, out_bytes_per_second), rates.both};
  return {limited.in, limited.out, std::min(rates.both, limited.in + limited.out)};
}

absl::StatusOr<std::map<std::string, LinkRates>> MeasureLinkRates(const RuntimeOptions& options) {
  std::map<std::string, LinkRates> rates;
  if (options.nvme_bytes > Bytes()) {
    SLUICE_ASSIGN_OR_RETURN(rates[kDiskLink], MeasureDisk(options));
  }
  SLUICE_ASSIGN_OR_RETURN(rates[kDeviceLink], MeasureCopies(options));
  return rates;
}

}  // namespace sluice::tools
