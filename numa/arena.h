#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "numa/address_range.h"

namespace sluice::numa {

struct ArenaOptions {
  /// Name of the arena, which /proc/self/maps shows as "memfd:sluice-<name>".
  std::string name = "dram";
  std::uint64_t page_bytes = 0;  ///< frame size: a power of two, at least 4 KiB
  std::uint32_t frames = 0;
  int node = 0;  ///< NUMA node to bind to; -1: no binding
  /// Number of nodes that memory may come from; 0: ask the system. With one node there is no
  /// binding.
  int node_count = 0;
  int touch_threads = 2;        ///< threads for first touch and collapsing
  std::vector<int> touch_cpus;  ///< processors of these threads, those of the node; empty: any
  bool huge_pages = true;       ///< true to collapse memory to 2 MiB pages
};

/// Properties of the arena's memory when it last took some: at creation, or by a Grow that took
/// any. A reason that is not empty is a fallback to announce.
struct ArenaInfo {
  /// Whether the memory is bound to the node, or can only come from it (there is one node).
  bool bound = false;
  /// Reason for which memory is not bound to a node that was asked for: "mbind refused: EPERM ...".
  std::string binding_reason;
  /// Reason for which some memory is not on huge pages that could be. Empty when all of it is, or
  /// huge pages were not asked for.
  std::string huge_page_reason;
};

/// Access that a mapping of a frame allows.
enum class MapAccess : std::uint8_t { kReadWrite, kRead };

/// Frames of host memory on one NUMA node. Their memory is a memfd made of chunks of min(256 MiB,
/// budget / 8 rounded up to 2 MiB and to a page). It is bound, first-touched in parallel and
/// collapsed to huge pages 2 MiB by 2 MiB. A last part of less than 2 MiB stays on small pages.
///
/// All I/O uses frame addresses. MapAt maps the same frames a second time, under another address,
/// for compute code. The memory is left out of core dumps, and a forked child does not have it.
/// Threads: const methods and MapAt from any thread. Shrink and Grow are externally synchronised
/// with each other, and with the use of the frames that they give back or take.
class Arena {
 public:
  /// Makes an arena. Errors: InvalidArgument, ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<Arena>> Create(const ArenaOptions& options);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Number of frames now: those at creation less those that Shrink gave back.
  std::uint32_t frame_count() const;
  std::uint64_t page_bytes() const;
  /// Number of frames per chunk: the granularity of Shrink and Grow.
  std::uint32_t frames_per_chunk() const;

  /// The frame's bytes. REQUIRES: frame < frame_count().
  std::span<std::byte> Frame(std::uint32_t frame) const;

  /// Maps the frame at `address` (page_bytes long, replacing what is mapped there) and populates
  /// the page tables, so that the first access does not fault. Errors: ResourceExhausted (the
  /// process has vm.max_map_count mappings), InvalidArgument (address not aligned to 4 KiB).
  absl::Status MapAt(std::uint32_t frame,
                     std::byte* address,
                     MapAccess access = MapAccess::kReadWrite) const;

  /// Gives the memory of frames [frames, frame_count()) back to the system, chunk by chunk. Rounds
  /// `frames` up to a whole chunk and returns the number of frames that stay. REQUIRES: nobody uses
  /// the others, nor has them mapped elsewhere. Errors: those of fallocate. The frames stay the
  /// arena's then, unless they cannot be mapped again, which frame_count() tells.
  absl::StatusOr<std::uint32_t> Shrink(std::uint32_t frames);
  /// Takes frames again: at least `frames`, up to the count at creation. Errors: InvalidArgument
  /// (more than that), ResourceExhausted; the chunks taken before the error stay taken.
  absl::StatusOr<std::uint32_t> Grow(std::uint32_t frames);

  /// Bytes the kernel has allocated for the memfd (st_blocks x 512).
  std::uint64_t allocated_bytes() const;
  /// Share of the arena that is mapped by 2 MiB pages, 0 to 1. It is as smaps showed it when memory
  /// was last taken or given back: reading smaps costs too much to do at each call.
  double huge_page_share() const;
  const ArenaInfo& info() const;

 private:
  struct State;
  explicit Arena(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace sluice::numa
