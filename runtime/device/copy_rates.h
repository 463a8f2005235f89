#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/device/device.h"

namespace sluice::device {

/// Bytes per second.
struct CopyRates {
  double in = 0;
  double out = 0;
  /// Rate of both directions at once, both counted.
  double both = 0;
};

struct PlainCopyOptions {
  std::uint64_t page_bytes = 256 << 10;
  /// Number of pages on each side. They are more than the caches hold, so that memory is measured.
  std::uint32_t pages = 256;
  std::uint32_t milliseconds = 200;  ///< length of each of the three measurements
  std::vector<int> cpus;             ///< processors for the threads; empty: any
};

/// Options that copy pages of `page_bytes`, or smaller ones, in four arenas of 32 MiB, or smaller
/// ones. The arenas take at most `memory_bytes` together (32 KiB at least). The loop writes past
/// the caches: arenas of 1 MiB give the same rate as those of 32 MiB, arenas of 64 KiB up to 1.3
/// times as much.
PlainCopyOptions PlainCopiesWithin(std::uint64_t page_bytes, std::uint64_t memory_bytes);

/// Measures a plain loop that copies pages between two arenas on huge pages, with one thread per
/// direction. The loop shares no code with the device, so that the device can be held against it.
/// Takes memory for 4 x pages while it runs. Errors: those of numa::Arena::Create and
/// base::StartThread.
absl::StatusOr<CopyRates> MeasurePlainCopyRates(const PlainCopyOptions& options);

struct DeviceCopyOptions {
  /// Frames of the device that the copies may overwrite: at least two. One half takes the copies
  /// in, the other gives those out.
  std::vector<std::uint32_t> frames;
  /// Host pages of page_bytes each that the copies may overwrite: at least two, in halves as the
  /// frames.
  std::vector<std::span<std::byte>> host;
  std::uint32_t milliseconds = 200;  ///< length of each of the three measurements
  std::uint32_t depth = 4;           ///< copies in flight per direction
};

/// Measures the device through its own interface, with its modelled rates. Blocks. Errors:
/// InvalidArgument, those of base::StartThread, and the first that a copy reports.
absl::StatusOr<CopyRates> MeasureCopyRates(Device& device, const DeviceCopyOptions& options);

}  // namespace sluice::device
