#include <charconv>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "runtime/device/cuda/cuda_device.h"
#include "sluice/units.h"

namespace sluice::device {
namespace {

constexpr int kComputeMajorMin = 8;
constexpr int kDriverVersionMin = 13000;

/// "GPU-0b6f..." in the groups of a UUID.
std::string UuidOf(const CudaDeviceFacts& facts) {
  std::string text = "GPU";
  for (std::size_t i = 0; i < facts.uuid.size(); ++i) {
    const bool group = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;
    text += fmt::format("{}{:02x}", group ? "-" : "", facts.uuid[i]);
  }
  return text;
}

absl::StatusOr<std::vector<CudaDeviceFacts>> ListGpus(CudaApi& api) {
  int count = 0;
  const CudaCode counted = api.CountDevices(&count);
  if (counted != kCudaSuccess && counted != kCudaNoDevice) {
    return absl::FailedPreconditionError("the NVIDIA driver says " + api.ErrorName(counted));
  }
  if (count == 0) {
    return absl::FailedPreconditionError(
        "no GPU is visible: there is none, or CUDA_VISIBLE_DEVICES hides it");
  }
  std::vector<CudaDeviceFacts> gpus(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    const CudaCode code = api.DescribeDevice(i, &gpus[static_cast<std::size_t>(i)]);
    if (code != kCudaSuccess) {
      return absl::FailedPreconditionError(
          fmt::format("GPU {} cannot be asked what it is: {}", i, api.ErrorName(code)));
    }
  }
  return gpus;
}

bool IsNamed(const CudaDeviceFacts& facts, const std::string& name) {
  const std::string uuid = UuidOf(facts);
  // A slice of a GPU goes by its own UUID, which begins with another word.
  const std::string slice = "MIG" + uuid.substr(3);
  return name.size() > 4 && (uuid.starts_with(name) || slice.starts_with(name));
}

std::optional<int> OrdinalOf(const std::vector<CudaDeviceFacts>& gpus, const std::string& name) {
  int ordinal = 0;
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data(), end, ordinal);
  const auto count = static_cast<int>(gpus.size());
  if (error == std::errc() && rest == end) {
    return ordinal >= 0 && ordinal < count ? std::optional(ordinal) : std::nullopt;
  }
  for (int i = 0; i < count; ++i) {
    if (IsNamed(gpus[static_cast<std::size_t>(i)], name)) return i;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<int> ChooseGpu(CudaApi& api, const std::string& name) {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<CudaDeviceFacts> gpus, ListGpus(api));
  if (name.empty()) return 0;
  if (const std::optional<int> ordinal = OrdinalOf(gpus, name)) return *ordinal;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    names.push_back(fmt::format("{} ({}, {})", i, gpus[i].name, UuidOf(gpus[i])));
  }
  return absl::NotFoundError(
      fmt::format("no GPU is named \"{}\"; there are {}", name, fmt::join(names, ", ")));
}

std::string WhyNotUsable(const CudaDeviceFacts& facts, std::uint64_t page_bytes) {
  if (facts.driver_version < kDriverVersionMin) {
    return fmt::format("the driver knows CUDA {}.{}, and 13.0 is needed: driver 580 or newer",
                       facts.driver_version / 1000,
                       facts.driver_version % 1000 / 10);
  }
  if (facts.compute_major < kComputeMajorMin) {
    return fmt::format("{} has compute capability {}.{}, and 8.0 is needed",
                       facts.name,
                       facts.compute_major,
                       facts.compute_minor);
  }
  if (!facts.maps_memory) return facts.name + " cannot map memory under addresses (cuMemMap)";
  if (!facts.registers_memory) return facts.name + " cannot register host memory";
  if (page_bytes % facts.granularity != 0 || page_bytes == 0) {
    return fmt::format(
        "page_bytes = \"{}\" is less than the {} that {} maps at once; set it to that "
        "or more",
        ToString(Bytes(page_bytes)),
        ToString(Bytes(facts.granularity)),
        facts.name);
  }
  return "";
}

}  // namespace sluice::device
