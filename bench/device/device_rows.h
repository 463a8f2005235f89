#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "bench/device/device_bench.h"
#include "bench/device/leased_run.h"
#include "bench/device/plain_device.h"
#include "bench/device/plain_store.h"
#include "bench/store/row.h"
#include "sluice/options.h"

namespace sluice::bench {

/// Frames of hbm in the cases of one page.
inline constexpr std::size_t kPageInFrames = 32;

/// Parts that measure one page size.
struct Subject {
  const DeviceBenchOptions& options;
  RuntimeOptions runtime;
  std::string suffix;  ///< "2MiB/cuda"
  std::unique_ptr<PlainDevice> plain;
  std::unique_ptr<PlainStore> store;  ///< ceiling of pages from nvme; null without a directory
  std::unique_ptr<LeasedRun> leased;
};

/// Names of the cases, in the order of their rows. From nvme there are fewer.
std::vector<std::string> CaseNames(bool from_nvme);

/// Rows of the rates of layers: one after another those whose names match. Errors: those of
/// RunDeviceBench.
absl::Status AddLayers(Subject& subject, const RowFn& add_row);
/// Rows of the times of leases of one page. REQUIRES: `leased` has tensors of one page, one more
/// than twice kPageInFrames, and kPageInFrames in hbm. Errors: those of RunDeviceBench.
absl::Status AddPageIns(Subject& subject, const RowFn& add_row);

}  // namespace sluice::bench
