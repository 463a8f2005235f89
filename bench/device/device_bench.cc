#include "bench/device/device_bench.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "bench/device/device_rows.h"
#include "bench/device/leased_run.h"
#include "bench/device/plain_device.h"
#include "bench/device/plain_store.h"
#include "bench/store/load.h"
#include "fmt/format.h"

namespace sluice::bench {
namespace {

RuntimeOptions OptionsOf(const DeviceBenchOptions& options, std::uint64_t page_bytes) {
  RuntimeOptions runtime;
  runtime.device = options.device;
  runtime.cuda.gpu = options.gpu;
  runtime.page_bytes = Bytes(page_bytes);
  runtime.memory.keep_mappings = true;  // page-ins in place are measured, in debug builds, too
  runtime.hbm_bytes = Bytes(options.hbm_bytes);
  // All weights, with room for copies in flight.
  runtime.dram_bytes = Bytes(options.weights_bytes + 16 * page_bytes);
  if (!options.directory.empty()) {
    runtime.io.directory = options.directory;
    runtime.dram_bytes = Bytes(std::max(options.weights_bytes / 4, 16 * page_bytes));
    runtime.nvme_bytes = Bytes(options.weights_bytes + 64 * page_bytes);
  }
  return runtime;
}

std::string SuffixOf(const DeviceBenchOptions& options, std::uint64_t page_bytes) {
  return fmt::format("{}MiB/{}{}",
                     page_bytes >> 20,
                     options.device == DeviceKind::kCuda ? "cuda" : "emulated",
                     options.directory.empty() ? "" : "/nvme");
}

absl::Status CheckPattern(const DeviceBenchOptions& options) {
  std::vector<std::string> names;
  for (const std::uint64_t page_bytes : options.page_bytes) {
    for (const std::string& name : CaseNames(!options.directory.empty())) {
      names.push_back(fmt::format("{}/{}", name, SuffixOf(options, page_bytes)));
      if (MatchesPattern(options.pattern, names.back())) return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError(
      base::ToAbsl(fmt::format("\"{}\" matches no case{}; cases are {}",
                               options.pattern,
                               base::DidYouMean(options.pattern, names),
                               fmt::join(names, ", "))));
}

absl::Status MeasurePages(const DeviceBenchOptions& options,
                          std::uint64_t page_bytes,
                          const RowFn& add_row) {
  Subject subject{.options = options,
                  .runtime = OptionsOf(options, page_bytes),
                  .suffix = SuffixOf(options, page_bytes)};
  SLUICE_ASSIGN_OR_RETURN(subject.plain, PlainDevice::Create(subject.runtime));
  if (!options.directory.empty()) {
    SLUICE_ASSIGN_OR_RETURN(subject.store,
                            PlainStore::Create({.directory = options.directory,
                                                .page_bytes = page_bytes,
                                                .bytes = options.weights_bytes,
                                                .milliseconds = options.milliseconds}));
  }
  SLUICE_ASSIGN_OR_RETURN(
      subject.leased,
      LeasedRun::Create(subject.runtime, options.weights_bytes, LayerBytes(page_bytes)));
  SLUICE_RETURN_IF_ERROR(AddLayers(subject, add_row));
  if (!options.directory.empty()) return absl::OkStatus();
  subject.leased.reset();
  DeviceBenchOptions of_pages = options;
  of_pages.hbm_bytes = kPageInFrames * page_bytes;
  of_pages.weights_bytes = (2 * kPageInFrames + 1) * page_bytes;
  SLUICE_ASSIGN_OR_RETURN(
      subject.leased,
      LeasedRun::Create(OptionsOf(of_pages, page_bytes), of_pages.weights_bytes, page_bytes));
  return AddPageIns(subject, add_row);
}

}  // namespace

std::uint64_t LayerBytes(std::uint64_t page_bytes) {
  return std::max(4 * page_bytes, std::uint64_t{16} << 20);
}

absl::Status RunDeviceBench(const DeviceBenchOptions& options, const RowFn& add_row) {
  SLUICE_RETURN_IF_ERROR(CheckPattern(options));
  for (const std::uint64_t page_bytes : options.page_bytes) {
    SLUICE_RETURN_IF_ERROR(MeasurePages(options, page_bytes, add_row));
  }
  return absl::OkStatus();
}

}  // namespace sluice::bench
