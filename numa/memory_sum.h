#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "numa/memory_limits.h"

namespace sluice::numa {

/// Kinds of memory, by the limits that count them.
enum class MemoryKind {
  kFrames,     ///< shared memory, which RLIMIT_DATA does not count
  kOther,      ///< memory that all limits count
  kStacks,     ///< stacks: not memory until used; RLIMIT_DATA and RLIMIT_AS count all
  kAddresses,  ///< addresses, which RLIMIT_AS alone counts
  kChild,      ///< memory of a child process, which has rlimits of its own
};

/// A part of the memory that a process will take: "366 MiB for NAME".
struct MemoryTerm {
  std::string name;
  std::uint64_t bytes = 0;
  MemoryKind kind = MemoryKind::kOther;
};

/// Memory that a process will take, by parts.
class MemorySum {
 public:
  /// Adds a term, unless it has no bytes.
  void Add(MemoryTerm term);
  void Add(const MemorySum& other);

  /// Bytes of memory: frames, others and children.
  std::uint64_t bytes() const;
  const std::vector<MemoryTerm>& terms() const { return terms_; }

 private:
  std::vector<MemoryTerm> terms_;
};

/// Whether the sum fits into the rest of memory, of addresses (RLIMIT_AS) and of data
/// (RLIMIT_DATA). `who` takes the sum ("the run"); `fix` says how to take less. Errors:
/// ResourceExhausted that names the sum, its terms, the largest first, the limit and its source.
absl::Status CheckFits(const MemorySum& sum,
                       const MemoryLimits& limits,
                       std::string_view who,
                       std::string_view fix);

}  // namespace sluice::numa
