#include <algorithm>
#include <numeric>

#include "base/status.h"
#include "fmt/format.h"
#include "io/drives/disk_rates.h"
#include "numa/arena.h"
#include "numa/memory_limits.h"
#include "runtime/device/copy_rates.h"
#include "runtime/device/emulated_device.h"
#include "tools/doctor/facts.h"

namespace sluice::tools {
namespace {

constexpr std::uint64_t kPageBytes = std::uint64_t{256} << 10;
/// More than the caches of most processors hold, on either side.
constexpr std::uint64_t kPagesMax = 256;

struct Rates {
  double in = 0;
  double out = 0;
  double both = 0;
};

void AddLink(const std::string& name, const Rates& rates, Section& section) {
  section.Add(name,
              {{"in_bytes_per_second", rates.in},
               {"out_bytes_per_second", rates.out},
               {"both_bytes_per_second", rates.both}},
              fmt::format("in {:.2f} GB/s, out {:.2f} GB/s, both at once {:.2f} GB/s",
                          rates.in / 1e9,
                          rates.out / 1e9,
                          rates.both / 1e9));
}

absl::StatusOr<Rates> MeasureEmulatedDevice(std::uint64_t memory_bytes) {
  const auto pages = static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(memory_bytes / 2 / kPageBytes, 2, kPagesMax));
  SLUICE_ASSIGN_OR_RETURN(
      const auto device,
      device::EmulatedDevice::Create({.page_bytes = kPageBytes, .frames = pages}));
  SLUICE_ASSIGN_OR_RETURN(
      const auto host,
      numa::Arena::Create(
          {.name = "doctor", .page_bytes = kPageBytes, .frames = pages, .node = -1}));
  device::DeviceCopyOptions options;
  options.frames.resize(pages);
  std::iota(options.frames.begin(), options.frames.end(), 0U);
  for (const std::uint32_t frame : options.frames) options.host.push_back(host->Frame(frame));
  SLUICE_ASSIGN_OR_RETURN(const device::CopyRates rates,
                          device::MeasureCopyRates(*device, options));
  return Rates{rates.in, rates.out, rates.both};
}

}  // namespace

absl::StatusOr<Section> MeasureLinks(const std::string& directory) {
  Section section("measure");
  SLUICE_ASSIGN_OR_RETURN(const numa::MemoryLimits limits, numa::ReadMemoryLimits());
  SLUICE_ASSIGN_OR_RETURN(const Rates copies, MeasureEmulatedDevice(limits.measuring_bytes()));
  AddLink("hbm-dram", copies, section);
  section.Add("hbm", "emulated", "host memory stands for it: the link is not that of a GPU");
  SLUICE_ASSIGN_OR_RETURN(
      const io::DiskRates disk,
      io::MeasureDiskRates({.directory = directory, .memory_bytes_max = limits.measuring_bytes()}));
  AddLink("dram-nvme", {disk.read, disk.write, disk.mixed}, section);
  section.Add("disk_engine", disk.engine);
  if (!disk.direct) {
    section.Warn("the page cache was measured, not the disk: " + disk.direct_reason);
  }
  return section;
}

}  // namespace sluice::tools
