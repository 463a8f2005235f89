#pragma once

#include <cstdint>
#include <optional>

namespace sluice::bench {

/// Peak of the process's memory above its size at the creation. Threads: one object in a process at
/// a time, since the system keeps one peak.
class PeakMemory {
 public:
  /// Resets the system's peak (clear_refs of proc).
  PeakMemory();
  /// VmHWM above VmRSS at the creation, pages of the heap and of arenas alike; none if the system
  /// does not tell.
  std::optional<std::uint64_t> Bytes() const;

 private:
  std::optional<std::uint64_t> start_;
};

}  // namespace sluice::bench
