#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "sluice/options.h"
#include "tools/train/report/link_bounds.h"

namespace sluice::tools {

/// Measures the rates of every link under plain loops on huge pages, now, on this machine. The
/// emulated device's link is no faster than its modelled rates. Rates are by the names of
/// Stats::links.
///
/// Blocks for at most two seconds, less where budgets are small. Writes a temporary file of at most
/// 256 MiB beside the spill file, and takes at most an eighth of the available memory. Errors:
/// those of io::MeasureDiskRates, device::MeasurePlainCopyRates and numa::ReadMemoryLimits.
absl::StatusOr<std::map<std::string, LinkRates>> MeasureLinkRates(const RuntimeOptions& options);

/// `rates`, no faster than a device with these modelled rates (0: no limit).
LinkRates LimitRates(const LinkRates& rates,
                     double in_bytes_per_second,
                     double out_bytes_per_second);

}  // namespace sluice::tools
