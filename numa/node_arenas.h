#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "numa/arena.h"
#include "numa/memory_nodes.h"

namespace sluice::numa {

struct NodeArenasOptions {
  /// The arenas' name; followed by "-node<N>" where there are several nodes.
  std::string name = "dram";
  std::uint64_t page_bytes = 0;   ///< see ArenaOptions
  std::uint32_t frames = 0;       ///< frames of all arenas together, at least one
  std::vector<MemoryNode> nodes;  ///< nodes of the arenas, at least one
  /// Processors that threads may use; empty: any. A node's own processors among them touch its
  /// memory. If the node has none among them, any of them do.
  std::vector<int> cpus;
  bool huge_pages = true;  ///< see ArenaOptions
  /// Whether each arena is bound to its node, and whether shares are even. Without even shares one
  /// node is filled after the other. The reason for lacking either is then kOffByOption.
  bool bind = true;
  bool even = true;
  /// The node that is filled first, before the others one after the other; `even` does not count.
  /// None, or a node that is not among `nodes`: as above.
  std::optional<int> first_node;
};

/// Properties of the arenas' memory when they last took some: at creation, or by a Grow that took
/// any. A reason that is not empty is a fallback to announce. It names the node where there are
/// several.
struct NodeArenasInfo {
  std::string binding_reason;    ///< see ArenaInfo
  std::string huge_page_reason;  ///< see ArenaInfo
  /// Reason for which not every node holds an even share, or not all memory is on the first node;
  /// at creation alone. `split` tells the share of each node.
  std::string split_reason;
  std::string split;
};

/// An arena per NUMA node as one sequence of frames: those of the first node, then those of the
/// next. Nodes for which no frame is left have no arena. All arenas are made at once, each by
/// threads of its node. Shrink gives frames of the last node back first. Threads: those of Arena.
class NodeArenas {
 public:
  /// Makes the arenas. Errors: InvalidArgument, ResourceExhausted (memory, as SplitFrames and
  /// Arena::Create; threads).
  static absl::StatusOr<std::unique_ptr<NodeArenas>> Create(const NodeArenasOptions& options);

  /// Number of frames now.
  std::uint32_t frame_count() const;
  std::uint64_t page_bytes() const { return arenas_.front()->page_bytes(); }
  std::size_t arena_count() const { return arenas_.size(); }

  /// The arena that has the frame, and the processors near an arena's memory that threads may use;
  /// empty: any.
  std::size_t ArenaOf(std::uint32_t frame) const { return ArenaFrameOf(frame).arena; }
  const std::vector<int>& CpusNear(std::size_t arena) const { return cpus_[arena]; }

  /// Frame and MapAt of Arena. Frames of different nodes may be mapped side by side: each has a
  /// memory object of its own, and addresses do not tell the node.
  std::span<std::byte> Frame(std::uint32_t frame) const;
  absl::Status MapAt(std::uint32_t frame,
                     std::byte* address,
                     MapAccess access = MapAccess::kReadWrite) const;

  /// Shrink and Grow of Arena. After an error some arenas may have given back or taken their
  /// frames.
  absl::StatusOr<std::uint32_t> Shrink(std::uint32_t frames);
  absl::StatusOr<std::uint32_t> Grow(std::uint32_t frames);

  /// The memory of the present frames, chunk by chunk. Shrink gives back, and Grow takes, whole
  /// chunks.
  std::vector<std::span<std::byte>> Chunks() const;
  /// Chunks that Shrink(`frames`) leaves.
  std::vector<std::span<std::byte>> ChunksOf(std::uint32_t frames) const;

  std::uint64_t allocated_bytes() const;
  /// Share of all frames' bytes on 2 MiB pages, 0 to 1.
  double huge_page_share() const;
  /// Whether all memory that could be is on 2 MiB pages: all but the last part of each arena.
  bool all_huge() const;
  const NodeArenasInfo& info() const { return info_; }

 private:
  struct ArenaFrame {
    std::size_t arena;
    std::uint32_t frame;
  };

  NodeArenas() = default;
  /// Number of the frames of the first `arena` arenas at creation: the next arena's frames begin
  /// there.
  std::uint32_t FirstFrame(std::size_t arena) const { return arena == 0 ? 0 : ends_[arena - 1]; }
  ArenaFrame ArenaFrameOf(std::uint32_t frame) const;
  /// Number of frames of arena `arena` when all arenas have `frames` together.
  std::uint32_t PartOf(std::uint32_t frames, std::size_t arena) const;
  absl::Status MakeArenas(const std::vector<ArenaOptions>& options);
  void AddInfo(std::size_t arena);
  double HugeBytes() const;

  std::vector<std::unique_ptr<Arena>> arenas_;
  std::vector<int> nodes_;              ///< one per arena
  std::vector<std::vector<int>> cpus_;  ///< one per arena
  std::vector<std::uint32_t> ends_;     ///< one past each arena's last frame, at creation
  NodeArenasInfo info_;
};

}  // namespace sluice::numa
