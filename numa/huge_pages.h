#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sluice::numa {

inline constexpr std::uint64_t kSmallPageBytes = 4096;
inline constexpr std::uint64_t kHugePageBytes = 2ull << 20;

struct PopulateOptions {
  bool huge_pages = true;
  int threads = 2;
  /// Processors for the threads; empty: any.
  std::vector<int> cpus;
};

/// Gives every page of `memory` (shared, mapped writable, 2 MiB-aligned) physical memory: per 2 MiB
/// one small page, then MADV_COLLAPSE of the 2 MiB, from several threads. Returns the reason for
/// which some 2 MiB did not become a huge page, or an empty string. These 2 MiB are populated with
/// small pages instead. Touching all pages first would cost eight times as much, and a wholly empty
/// range cannot be collapsed. Errors: ResourceExhausted (no memory), and others that madvise gives.
absl::StatusOr<std::string> PopulateMemory(std::span<std::byte> memory,
                                           const PopulateOptions& options);

/// Bytes of `memory` that the page tables map by huge pages: AnonHugePages, ShmemPmdMapped and
/// FilePmdMapped of /proc/self/smaps. Errors: NotFound when smaps cannot be read.
absl::StatusOr<std::uint64_t> HugeMappedBytes(std::span<const std::byte> memory);

/// Leaves the mapping out of core dumps and of forked children. Children could otherwise change the
/// parent's pages.
absl::Status KeepPrivateToProcess(std::span<std::byte> memory);

}  // namespace sluice::numa
