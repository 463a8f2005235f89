#pragma once

#include <memory>
#include <vector>

#include "runtime/device/device.h"

namespace sluice::device {

/// A stream of the emulated device, or of a runtime without a device: one thread that runs its work
/// in order. The work may enqueue more, but not Synchronize.
/// Errors: ResourceExhausted (the thread cannot be started).
absl::StatusOr<std::unique_ptr<Stream>> MakeEmulatedStream(const std::vector<int>& cpus);

}  // namespace sluice::device
