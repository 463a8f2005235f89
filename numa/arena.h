#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sluice::numa {

struct ArenaOptions {
  /// Shows in /proc/self/maps as "memfd:sluice-<name>".
  std::string name = "dram";
  std::uint64_t page_bytes = 0;  ///< frame size: a power of two, at least 4 KiB
  std::uint32_t frames = 0;
  int node = 0;               ///< NUMA node to bind to; -1: no binding
  int touch_threads = 2;      ///< threads for first touch and collapsing
  bool huge_pages = true;     ///< collapse to 2 MiB pages
};

/// Frames of host memory on one NUMA node: a memfd made of chunks of min(256 MiB, budget / 8 rounded
/// up to 2 MiB and to a page), bound, first-touched in parallel and collapsed to huge pages 2 MiB by
/// 2 MiB. All I/O uses frame addresses; compute code may get the same frames mapped a second time
/// under another address with MapAt.
/// Threads: const methods and MapAt from any thread; Shrink and Grow externally synchronised with all.
class Arena {
 public:
  /// Errors: InvalidArgument, ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<Arena>> Create(const ArenaOptions& options);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  std::uint32_t frame_count() const;
  std::uint64_t page_bytes() const;
  /// Frames per chunk: the granularity of Shrink and Grow.
  std::uint32_t frames_per_chunk() const;

  /// The frame's bytes. REQUIRES: frame < frame_count() and its chunk is not given back.
  std::span<std::byte> Frame(std::uint32_t frame) const;

  /// Maps the frame at `address` (page_bytes long, replacing what is mapped there) and populates the
  /// page tables, so that the first access does not fault.
  absl::Status MapAt(std::uint32_t frame, std::byte* address) const;

  /// Gives the memory of frames [frames, frame_count()) back to the system, chunk by chunk; rounds
  /// `frames` up to a whole chunk and returns the frames that stay. REQUIRES: nobody uses them.
  absl::StatusOr<std::uint32_t> Shrink(std::uint32_t frames);
  /// Takes them again, up to the count at creation.
  absl::StatusOr<std::uint32_t> Grow(std::uint32_t frames);

  /// Bytes the kernel has allocated for the memfd (st_blocks x 512).
  std::uint64_t allocated_bytes() const;
  /// Share of the arena that is mapped by 2 MiB pages, read from smaps; 0 to 1.
  double huge_page_share() const;

 private:
  struct State;
  explicit Arena(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// A reserved, inaccessible range of addresses, 2 MiB-aligned, under which frames are mapped.
/// Threads: Protect from any thread on disjoint parts.
class AddressRange {
 public:
  static absl::StatusOr<std::unique_ptr<AddressRange>> Reserve(std::uint64_t bytes);
  ~AddressRange();
  AddressRange(const AddressRange&) = delete;
  AddressRange& operator=(const AddressRange&) = delete;

  std::byte* base() const { return base_; }
  std::uint64_t bytes() const { return bytes_; }

  /// Makes the part inaccessible again (PROT_NONE), dropping whatever frame is mapped there.
  absl::Status Unmap(std::uint64_t offset, std::uint64_t bytes) const;

 private:
  AddressRange(std::byte* base, std::uint64_t bytes) : base_(base), bytes_(bytes) {}
  std::byte* base_;
  std::uint64_t bytes_;
};

}  // namespace sluice::numa
