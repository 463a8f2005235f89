#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "bench/device/device_bench.h"
#include "fmt/format.h"
#include "sluice/units.h"
#include "tools/bench/bench.h"
#include "tools/bench/row_output.h"
#include "tools/support/arguments.h"
#include "tools/support/console.h"
#include "tools/support/exit_code.h"
#include "tools/support/interrupt.h"
#include "tools/support/number_flag.h"

namespace sluice::tools {
namespace {

const std::vector<FlagSpec>& DeviceFlagSpecs() {
  static const std::vector<FlagSpec> kFlags = {
      {"--device", FlagShape::kValue, "KIND", "emulated (default) or cuda"},
      {"--gpu", FlagShape::kValue, "GPU", "ordinal or UUID of the GPU (default: the first)"},
      {"--dir", FlagShape::kValue, "DIR", "spill files there: pages come from nvme as well"},
      {"--hbm", FlagShape::kValue, "BYTES", "budget of hbm (default 256MiB)"},
      {"--weights", FlagShape::kValue, "BYTES", "bytes that a pass leases (default 1GiB)"},
      {"--page", FlagShape::kValue, "BYTES", "size of pages (default: 2MiB, then 16MiB)"},
      {"--quick", FlagShape::kSwitch, "", "2 rounds instead of 5, 100 page-ins instead of 1000"},
      {"--rounds", FlagShape::kValue, "N", "rounds of each case (default 5)"},
      {"--json", FlagShape::kSwitch, "", "one JSON object per row, one per line"},
      {"--case",
       FlagShape::kValue,
       "PATTERN",
       "only rows with this in their name; *, ? and [] match"},
      {"--help", FlagShape::kSwitch, "", "prints this"}};
  return kFlags;
}

std::string DeviceHelpText() {
  return "Usage: sluice bench device [FLAG ...]\n\n"
         "Measures leases in hbm of tensors that are in dram: CASE/PAGE/DEVICE. The ceiling is\n"
         "plain copies of the same device and page size, in the same rounds. in, out and both are\n"
         "rates of leases that read, overwrite, and read and write, in random order. The device\n"
         "computes during the copies of beside-gemm. weights is a planned pass in order, layer by\n"
         "layer. page-in is the time of one lease of one page, less that of a lease where nothing\n"
         "moves. With --dir the rates are those of nvme, and the ceiling is a page store alone.\n"
         "Takes about 3 minutes.\n\n" +
         DescribeFlags(DeviceFlagSpecs());
}

struct DeviceFlags {
  bench::DeviceBenchOptions options;
  bool json = false;
};

absl::Status ReadKind(const Arguments& arguments, DeviceKind* kind) {
  const std::string wanted = arguments.Value("--device", "emulated");
  if (wanted != "emulated" && wanted != "cuda") {
    return absl::InvalidArgumentError(
        fmt::format("--device is \"{}\"; allowed are emulated, cuda", wanted));
  }
  *kind = wanted == "cuda" ? DeviceKind::kCuda : DeviceKind::kEmulated;
  return absl::OkStatus();
}

absl::Status ReadAmounts(const Arguments& arguments, bench::DeviceBenchOptions* options) {
  SLUICE_RETURN_IF_ERROR(ReadBytes(arguments, "--hbm", &options->hbm_bytes));
  SLUICE_RETURN_IF_ERROR(ReadBytes(arguments, "--weights", &options->weights_bytes));
  std::uint64_t page_bytes = 0;
  SLUICE_RETURN_IF_ERROR(ReadBytes(arguments, "--page", &page_bytes));
  if (page_bytes != 0) options->page_bytes = {page_bytes};
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
  if (arguments.Has("--quick")) {
    options->rounds = 2;
    options->page_ins = 100;
  }
  return ReadNumber(arguments, "--rounds", kBenchNumbers, &options->rounds);
}

absl::StatusOr<DeviceFlags> ReadDeviceFlags(std::span<const std::string> words) {
  SLUICE_ASSIGN_OR_RETURN(const Arguments arguments, Arguments::Parse(words, DeviceFlagSpecs()));
  DeviceFlags flags;
  flags.json = arguments.Has("--json");
  SLUICE_RETURN_IF_ERROR(ReadKind(arguments, &flags.options.device));
  flags.options.gpu = arguments.Value("--gpu");
  flags.options.directory = arguments.Value("--dir");
  flags.options.pattern = arguments.Value("--case");
  SLUICE_RETURN_IF_ERROR(ReadAmounts(arguments, &flags.options));
  return flags;
}

absl::Status MeasureDevice(DeviceFlags flags, const InterruptWatch& watch) {
  Console console(flags.json ? Console::Mode::kJson : Console::Mode::kText);
  const BrokenPipeIsAnError broken_pipe;
  flags.options.interrupted = [&] { return watch.interrupted() || !console.status().ok(); };
  RowPrinter printer("device", ReadMachineFacts(flags.options.directory), console);
  absl::Status measured =
      bench::RunDeviceBench(flags.options, [&](const bench::Row& row) { printer.Add(row); });
  SLUICE_RETURN_IF_ERROR(console.status());
  return measured;
}

}  // namespace

int RunBenchDevice(std::span<const std::string> words) {
  if (AsksForHelp(words)) {
    fmt::print("{}", DeviceHelpText());
    return kExitDone;
  }
  absl::StatusOr<DeviceFlags> flags = ReadDeviceFlags(words);
  if (!flags.ok()) return Fail(flags.status());
  const InterruptWatch watch;
  const absl::Status measured = MeasureDevice(*std::move(flags), watch);
  if (watch.interrupted()) return kExitSignal + watch.signal();
  return measured.ok() ? kExitDone : Fail(measured);
}

}  // namespace sluice::tools
