#pragma once

#include <chrono>
#include <thread>

#include "absl/status/status.h"

namespace sluice::io {

/// Calls `make`, which returns a StatusOr and leaves nothing behind where it fails. Calls it again
/// for 0.3 s while it says ResourceExhausted, for whatever cause. The space of a process that was
/// killed comes back up to a tenth of a second later, when the kernel has ended its ring. Blocks
/// for as long.
template <typename Make>
auto WaitForSpace(const Make& make) {
  constexpr auto kPause = std::chrono::milliseconds(20);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  auto made = make();
  while (absl::IsResourceExhausted(made.status()) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kPause);
    made = make();
  }
  return made;
}

}  // namespace sluice::io
