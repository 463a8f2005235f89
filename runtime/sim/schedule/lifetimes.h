#pragma once

#include <cstdint>
#include <vector>

#include "runtime/sim/schedule/extents.h"
#include "runtime/sim/schedule/file_schedule.h"

namespace sluice::sim {

/// Times from which and until which each extent has content. An extent that tensors share lives
/// while one of them does.
struct Lifetimes {
  static constexpr std::uint32_t kNever = UINT32_MAX;
  struct Life {
    bool persistent = false;
    /// The first and the last op that touches the extent or tensor; kNever: none does.
    std::uint32_t first = kNever;
    std::uint32_t last = 0;
  };
  /// Lives of extents, and of tensors.
  std::vector<Life> extents;
  std::vector<Life> tensors;
};

Lifetimes FindLifetimes(const FileSchedule& schedule, const Extents& extents);

}  // namespace sluice::sim
