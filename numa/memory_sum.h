#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "numa/memory_limits.h"

namespace sluice::numa {

/// Frames are shared memory, which RLIMIT_DATA does not count.
enum class MemoryKind { kFrames, kOther };

/// A part of what a process will take: "366 MiB for NAME".
struct MemoryTerm {
  std::string name;
  std::uint64_t bytes = 0;
  MemoryKind kind = MemoryKind::kOther;
};

/// Memory that a process will take, by parts.
class MemorySum {
 public:
  /// A term without bytes is left out.
  void Add(MemoryTerm term);
  void Add(const MemorySum& other);

  std::uint64_t bytes() const { return bytes_; }
  const std::vector<MemoryTerm>& terms() const { return terms_; }
  /// "366 MiB for frames of dram, 1.75 MiB for threads", the largest first.
  std::string Describe() const;

 private:
  std::vector<MemoryTerm> terms_;
  std::uint64_t bytes_ = 0;
};

/// Whether the sum fits into what is left. `who` takes it ("the run"); `fix` says how to take less.
/// Errors: ResourceExhausted that names the sum, its terms, the limit and where that comes from.
absl::Status CheckFits(const MemorySum& sum,
                       const MemoryLimits& limits,
                       std::string_view who,
                       std::string_view fix);

}  // namespace sluice::numa
