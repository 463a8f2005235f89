#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "numa/arena.h"
#include "runtime/device/device.h"

namespace sluice::device {

/// Modelled rates; 0 means as fast as the host copies. Each direction has its own timeline: a copy
/// occupies it for bytes / rate, then completes `latency_seconds` later.
struct EmulatedRates {
  double in_bytes_per_second = 0;
  double out_bytes_per_second = 0;
  double latency_seconds = 0;
};

struct EmulatedHbmOptions {
  std::uint64_t page_bytes = 0;
  std::uint32_t frames = 0;
  EmulatedRates rates;
  bool huge_pages = true;
  /// NUMA node of the frames; -1: any.
  int node = -1;
  /// Processors for the copy threads and streams; empty: any.
  std::vector<int> cpus;
};

/// Host memory that stands for HBM: frames of a memfd of its own, mapped under stable ranges,
/// filled and emptied by real copies on one thread per direction.
class EmulatedDevice : public Device {
 public:
  /// Errors: InvalidArgument, ResourceExhausted (memory, threads).
  static absl::StatusOr<std::unique_ptr<EmulatedDevice>> Create(const EmulatedHbmOptions& options);
  /// Sets the rates of copies that have not started. REQUIRES: no rate is negative.
  virtual void SetRates(const EmulatedRates& rates) = 0;
  /// Facts of the device's memory, with the fallbacks to announce.
  virtual const numa::ArenaInfo& arena_info() const = 0;
};

}  // namespace sluice::device
