#pragma once

#include <chrono>
#include <cstdint>

#include "runtime/device/cuda/cuda_api.h"

namespace sluice::testing {

/// Devices and habits of a fake driver.
struct FakeCudaOptions {
  int devices = 1;
  device::CudaCode count_code = device::kCudaSuccess;  ///< answer of CountDevices
  /// Facts of each device. The uuid's last byte and the PCI bus are the ordinal.
  device::CudaDeviceFacts facts = {.name = "Fake GPU",
                                   .compute_major = 9,
                                   .compute_minor = 0,
                                   .driver_version = 13000,
                                   .memory_bytes = 1ULL << 30,
                                   .granularity = 2ULL << 20,
                                   .maps_memory = true,
                                   .registers_memory = true};
  bool batch_copies = true;                  ///< CopyBatch works
  std::uint64_t address_pages = 1 << 16;     ///< device addresses, in units of the granularity
  bool garbage = true;                       ///< new memory holds 0xA5; false saves the time
  std::chrono::microseconds link_time{0};    ///< least time of a copy
  std::chrono::microseconds delay_max{100};  ///< greatest delay before a piece of work
  std::uint64_t seed = 1;
};

}  // namespace sluice::testing
