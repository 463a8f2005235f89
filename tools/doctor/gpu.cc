#include <dlfcn.h>

#include <algorithm>
#include <filesystem>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "sluice/units.h"
#include "tools/doctor/facts.h"
#include "tools/doctor/probe_file.h"

namespace sluice::tools {
namespace {

/// The few calls of the driver library that tell what is there. It is loaded, not linked, so that
/// the command runs where there is none.
class CudaDriver {
 public:
  CudaDriver() : library_(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) {}
  ~CudaDriver() {
    if (library_ != nullptr) dlclose(library_);
  }
  CudaDriver(const CudaDriver&) = delete;
  CudaDriver& operator=(const CudaDriver&) = delete;

  /// Why there are no devices; empty when there are.
  std::string Read(std::vector<GpuDevice>* devices) {
    if (library_ == nullptr) return "the driver's library libcuda.so.1 cannot be loaded";
    const auto initialize = Find<int (*)(unsigned)>("cuInit");
    const auto count = Find<int (*)(int*)>("cuDeviceGetCount");
    const auto get = Find<int (*)(int*, int)>("cuDeviceGet");
    const auto name = Find<int (*)(char*, int, int)>("cuDeviceGetName");
    const auto memory = Find<int (*)(std::size_t*, int)>("cuDeviceTotalMem_v2");
    if (!initialize || !count || !get || !name || !memory) return "libcuda.so.1 is incomplete";
    if (const int error = initialize(0); error != 0) {
      return fmt::format("cuInit failed with error {}", error);
    }
    int devices_found = 0;
    if (const int error = count(&devices_found); error != 0) {
      return fmt::format("cuDeviceGetCount failed with error {}", error);
    }
    for (int index = 0; index < devices_found; ++index) {
      int device = 0;
      char text[128] = {};
      std::size_t bytes = 0;
      if (get(&device, index) != 0 || name(text, sizeof(text) - 1, device) != 0 ||
          memory(&bytes, device) != 0) {
        return fmt::format("device {} does not answer", index);
      }
      devices->push_back({.name = text, .memory_bytes = bytes});
    }
    return devices->empty() ? "the driver shows no device to this process" : "";
  }

 private:
  template <typename Function>
  Function Find(const char* name) {
    return reinterpret_cast<Function>(dlsym(library_, name));
  }

  void* library_;
};

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

}  // namespace

GpuFacts ReadGpu(const std::string& root) {
  GpuFacts facts;
  facts.pci = FindOnPciBus(root);
  facts.driver = ReadLine(root + "/proc/driver/nvidia/version");
  if (facts.driver.empty()) {
    facts.reason = facts.pci.empty() ? "no NVIDIA device on the PCI bus, and no driver"
                                     : "an NVIDIA device is there, but its driver is not loaded";
    return facts;
  }
  facts.reason = CudaDriver().Read(&facts.devices);
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
    devices.push_back({{"name", device.name}, {"memory_bytes", device.memory_bytes}});
    text += fmt::format(
        "{}{} ({})", text.empty() ? "" : ", ", device.name, ToString(Bytes(device.memory_bytes)));
  }
  section.Add("devices", std::move(devices), std::move(text));
  return section;
}

}  // namespace sluice::tools
