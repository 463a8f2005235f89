#pragma once

#include <cstdint>
#include <optional>

namespace sluice::bench {

/// What the process has come to hold beyond what it held at the creation, at most. Threads: one at
/// a time in a process, as the system keeps one peak.
class PeakMemory {
 public:
  /// Sets the system's peak back (clear_refs of proc).
  PeakMemory();
  /// VmHWM over VmRSS of the creation, pages of the heap and of arenas alike; none where the system
  /// does not tell.
  std::optional<std::uint64_t> Bytes() const;

 private:
  std::optional<std::uint64_t> start_;
};

}  // namespace sluice::bench
