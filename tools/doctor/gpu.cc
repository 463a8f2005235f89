#include <algorithm>
#include <cctype>
#include <filesystem>
#include <utility>

#include "base/strings.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "numa/memory_nodes.h"
#include "runtime/device/cuda/cuda_device.h"
#include "runtime/device/cuda/driver_api.h"
#include "sluice/units.h"
#include "tools/doctor/facts.h"
#include "tools/doctor/probe_file.h"

namespace sluice::tools {
namespace {

/// Free memory of the GPU; 0: the driver does not tell.
std::uint64_t FreeBytes(device::CudaApi& api, int ordinal) {
  device::CudaContext context = nullptr;
  if (api.RetainContext(ordinal, &context) != device::kCudaSuccess) return 0;
  std::uint64_t free = 0;
  std::uint64_t all = 0;
  if (api.PushContext(context) == device::kCudaSuccess) {
    if (api.FreeMemory(&free, &all) != device::kCudaSuccess) free = 0;
    api.PopContext();  // the process ends soon, whatever the code
  }
  api.ReleaseContext(ordinal);  // likewise
  return free;
}

/// "32.0 GT/s x16"; empty where the system does not tell.
std::string LinkOf(const std::string& root, const std::string& pci) {
  const std::string slot = root + "/sys/bus/pci/devices/" + pci;
  // The speed may be followed by the word PCIe.
  const std::string speed = ReadLine(slot + "/current_link_speed");
  const std::string width = ReadLine(slot + "/current_link_width");
  const std::size_t unit = speed.find("GT/s");
  if (unit == std::string::npos || width.empty() || width == "0") return "";
  return speed.substr(0, unit + 4) + " x" + width;
}

GpuDevice DescribeDevice(const std::string& root, const device::CudaDeviceFacts& facts) {
  std::string pci = facts.pci_address;
  // The system writes the address in small letters.
  std::transform(pci.begin(), pci.end(), pci.begin(), [](unsigned char letter) {
    return static_cast<char>(std::tolower(letter));
  });
  return {
      .name = facts.name,
      .memory_bytes = facts.memory_bytes,
      .link = LinkOf(root, pci),
      .compute = fmt::format("{}.{}", facts.compute_major, facts.compute_minor),
      .cuda = fmt::format("{}.{}", facts.driver_version / 1000, facts.driver_version % 1000 / 10),
      .node = numa::NodeOfPci(pci, root).value_or(-1),
      .pci = pci,
      .unusable = device::WhyNotUsable(facts, facts.granularity)};
}

/// Reads the devices. Returns why no GPU can hold a tier; empty if one can.
std::string ReadDevices(const std::string& root, std::vector<GpuDevice>* devices) {
  const auto api = device::LoadCudaApi();
  if (!api.ok()) return std::string(base::ToStd(api.status().message()));
  int count = 0;
  const device::CudaCode counted = (*api)->CountDevices(&count);
  if (counted != device::kCudaSuccess && counted != device::kCudaNoDevice) {
    return "the NVIDIA driver says " + (*api)->ErrorName(counted);
  }
  if (count == 0) return "the driver shows no GPU to this process";
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    GpuDevice device;
    if (std::string why = ReadGpuDevice(root, **api, ordinal, &device); !why.empty()) return why;
    devices->push_back(std::move(device));
  }
  const auto usable = [](const GpuDevice& gpu) { return gpu.unusable.empty(); };
  return std::any_of(devices->begin(), devices->end(), usable) ? "" : devices->front().unusable;
}

/// NVIDIA's display (0x0300) and 3D (0x0302) controllers.
std::vector<std::string> FindOnPciBus(const std::string& root) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(root + "/sys/bus/pci/devices", error)) {
    const std::string path = entry.path().string();
    if (ReadLine(path + "/vendor") == "0x10de" && ReadLine(path + "/class").rfind("0x03", 0) == 0) {
      found.push_back(entry.path().filename().string());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string TextOf(const GpuDevice& device) {
  std::string text =
      fmt::format("{} ({}{}, compute {}, driver for CUDA {}, PCI {}{}, {})",
                  device.name,
                  ToString(Bytes(device.memory_bytes)),
                  device.free_bytes == 0
                      ? ""
                      : fmt::format(" of which {} are free", ToString(Bytes(device.free_bytes))),
                  device.compute,
                  device.cuda,
                  device.pci,
                  device.link.empty() ? "" : " at " + device.link,
                  device.node < 0 ? "node unknown" : fmt::format("node {}", device.node));
  if (!device.unusable.empty()) text += ": not usable, as " + device.unusable;
  return text;
}

}  // namespace

std::string ReadGpuDevice(const std::string& root,
                          device::CudaApi& api,
                          int ordinal,
                          GpuDevice* device) {
  device::CudaDeviceFacts facts;
  const device::CudaCode code = api.DescribeDevice(ordinal, &facts);
  if (code != device::kCudaSuccess) {
    return fmt::format("GPU {} does not answer: {}", ordinal, api.ErrorName(code));
  }
  *device = DescribeDevice(root, facts);
  device->free_bytes = FreeBytes(api, ordinal);
  return "";
}

GpuFacts ReadGpu(const std::string& root) {
  GpuFacts facts;
  facts.pci = FindOnPciBus(root);
  facts.driver = ReadLine(root + "/proc/driver/nvidia/version");
  if (facts.driver.empty()) {
    facts.reason = facts.pci.empty() ? "no NVIDIA device on the PCI bus, and no driver"
                                     : "an NVIDIA device is there, but its driver is not loaded";
    return facts;
  }
  facts.reason = ReadDevices(root, &facts.devices);
  return facts;
}

Section DescribeGpu(const GpuFacts& facts) {
  Section section("gpu");
  section.Add("usable", facts.reason.empty(), facts.reason.empty() ? "yes" : "no");
  if (!facts.reason.empty()) section.Add("reason", facts.reason);
  if (!facts.pci.empty()) {
    section.Add("pci", facts.pci, fmt::format("{}", fmt::join(facts.pci, ", ")));
  }
  if (!facts.driver.empty()) section.Add("driver", facts.driver);
  if (facts.devices.empty()) return section;
  nlohmann::ordered_json devices = nlohmann::ordered_json::array();
  std::string text;
  for (const GpuDevice& device : facts.devices) {
    devices.push_back({{"name", device.name},
                       {"memory_bytes", device.memory_bytes},
                       {"free_bytes", device.free_bytes},
                       {"link", device.link},
                       {"compute", device.compute},
                       {"cuda", device.cuda},
                       {"pci", device.pci},
                       {"node", device.node},
                       {"unusable", device.unusable}});
    text += (text.empty() ? "" : ", ") + TextOf(device);
  }
  section.Add("devices", std::move(devices), std::move(text));
  section.Add(
      "shared",
      "tiers.hbm.bytes and the cache of a framework's allocator come out of the same memory");
  return section;
}

}  // namespace sluice::tools
