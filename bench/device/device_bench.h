#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "bench/store/row.h"
#include "bench/store/system/child_output.h"
#include "sluice/options.h"

namespace sluice::bench {

struct DeviceBenchOptions {
  DeviceKind device = DeviceKind::kEmulated;
  std::string gpu;  ///< name of the GPU, see CudaOptions::gpu
  std::vector<std::uint64_t> page_bytes = {std::uint64_t{2} << 20, std::uint64_t{16} << 20};
  std::uint64_t hbm_bytes = std::uint64_t{256} << 20;
  std::uint64_t weights_bytes = std::uint64_t{1} << 30;  ///< bytes that a pass leases in order
  std::string directory;  ///< directory of spill files; empty: no nvme
  std::string pattern;    ///< pattern of the cases; empty: all
  int rounds = 5;
  std::uint32_t milliseconds = 200;  ///< length of each measurement of plain copies
  int page_ins = 1000;               ///< leases of the row of one page

  InterruptedFn interrupted;
};

/// Bytes of a layer, the unit of leases: four pages, and at least 16 MiB.
std::uint64_t LayerBytes(std::uint64_t page_bytes);

/// Measures what leases in hbm reach against plain copies of the same device, page size and round;
/// with a directory, against a page store there.
/// Calls `add_row` as rows come. Threads: the calling one. Errors: those of Runtime::Create and of
/// the device; InvalidArgument (no case matches), Cancelled.
absl::Status RunDeviceBench(const DeviceBenchOptions& options, const RowFn& add_row);

}  // namespace sluice::bench
