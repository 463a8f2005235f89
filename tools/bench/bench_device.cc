#include <algorithm>

#include "base/status.h"
#include "bench/device/device_bench.h"
#include "fmt/format.h"
#include "sluice/units.h"
#include "tools/bench/bench.h"
#include "tools/bench/bench_runner.h"
#include "tools/support/page_flag.h"

namespace sluice::tools {
namespace {

constexpr int kQuickPageIns = 100;

constexpr char kDeviceAbout[] =
    "Measures leases in hbm of tensors that are in dram: CASE/PAGE/DEVICE. The ceiling is\n"
    "plain copies of the same device and page size, in the same rounds. in, out and both are\n"
    "rates of leases that read, overwrite, and read and write, in random order. The device\n"
    "computes during the copies of beside-gemm. weights is a planned pass in order, layer by\n"
    "layer. page-in is the time of one lease of one page, less that of a lease where nothing\n"
    "moves. With --dir the rates are those of nvme, and the ceiling is a page store alone.\n"
    "Takes about 3 minutes.\n";

std::vector<FlagSpec> DeviceFlagSpecs() {
  return {
      {"--device", FlagShape::kValue, "KIND", "emulated (default) or cuda"},
      {"--gpu", FlagShape::kValue, "GPU", "ordinal or UUID of the GPU (default: the first)"},
      {"--dir", FlagShape::kValue, "DIR", "spill files there: pages come from nvme as well"},
      {"--hbm", FlagShape::kValue, "BYTES", "budget of hbm (default 256MiB)"},
      {"--weights", FlagShape::kValue, "BYTES", "bytes that a pass leases (default 1GiB)"},
      {"--page", FlagShape::kValue, "BYTES", "size of pages (default: 2MiB, then 16MiB)"},
      {"--quick", FlagShape::kSwitch, "", "2 rounds instead of 5, 100 page-ins instead of 1000"}};
}

absl::Status ReadKind(const Arguments& arguments, DeviceKind* kind) {
  const std::string wanted = arguments.Value("--device", "emulated");
  if (wanted != "emulated" && wanted != "cuda") {
    return absl::InvalidArgumentError(
        fmt::format("--device is \"{}\"; allowed are emulated, cuda", wanted));
  }
  if (wanted == "emulated" && arguments.Has("--gpu")) {
    return absl::InvalidArgumentError("--gpu needs --device cuda: the emulated device has no GPU");
  }
  *kind = wanted == "cuda" ? DeviceKind::kCuda : DeviceKind::kEmulated;
  return absl::OkStatus();
}

absl::Status ReadAmounts(const Arguments& arguments, bench::DeviceBenchOptions* options) {
  SLUICE_RETURN_IF_ERROR(ReadBytes(arguments, "--hbm", &options->hbm_bytes));
  SLUICE_RETURN_IF_ERROR(ReadBytes(arguments, "--weights", &options->weights_bytes));
  SLUICE_ASSIGN_OR_RETURN(const std::uint64_t page_bytes, ReadPageFlag(arguments, 0));
  if (page_bytes > 0) options->page_bytes = {page_bytes};
  const std::uint64_t largest =
      *std::max_element(options->page_bytes.begin(), options->page_bytes.end());
  if (options->weights_bytes < options->hbm_bytes + 4 * largest) {
    return absl::InvalidArgumentError(
        "--weights is less than --hbm and four pages, so nothing would move; raise it");
  }
  if (options->hbm_bytes < 4 * bench::LayerBytes(largest)) {
    return absl::InvalidArgumentError(fmt::format(
        "--hbm is less than the {} of the four layers that are leased at once; raise it",
        ToString(Bytes(4 * bench::LayerBytes(largest)))));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> MeasureDevice(const BenchRun& run) {
  bench::DeviceBenchOptions options{.gpu = run.arguments.Value("--gpu"),
                                    .directory = run.arguments.Value("--dir"),
                                    .pattern = run.pattern,
                                    .rounds = run.rounds,
                                    .interrupted = run.interrupted};
  if (run.arguments.Has("--quick")) options.page_ins = kQuickPageIns;
  SLUICE_RETURN_IF_ERROR(ReadKind(run.arguments, &options.device));
  SLUICE_RETURN_IF_ERROR(ReadAmounts(run.arguments, &options));
  SLUICE_RETURN_IF_ERROR(bench::RunDeviceBench(options, run.add_row));
  return std::string();
}

}  // namespace

int RunBenchDevice(std::span<const std::string> words) {
  return RunBenchmark({.name = "device",
                       .usage = "[FLAG ...]",
                       .about = kDeviceAbout,
                       .flags = DeviceFlagSpecs(),
                       .rounds = bench::DeviceBenchOptions().rounds,
                       .quick_rounds = 2,
                       .measure = MeasureDevice},
                      words);
}

}  // namespace sluice::tools
