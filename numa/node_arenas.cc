#include "numa/node_arenas.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status.h"
#include "base/thread.h"
#include "base/worker_pool.h"
#include "numa/huge_pages.h"
#include "sluice/use.h"

namespace sluice::numa {
namespace {

/// The node's processors that are allowed; all allowed ones where none of the node's is.
std::vector<int> TouchCpus(const std::vector<int>& of_node, const std::vector<int>& allowed) {
  if (allowed.empty()) return of_node;
  std::vector<int> both;
  std::copy_if(of_node.begin(), of_node.end(), std::back_inserter(both), [&](int cpu) {
    return std::find(allowed.begin(), allowed.end(), cpu) != allowed.end();
  });
  return both.empty() ? allowed : both;
}

/// Puts the first node first. Returns whether there is one.
bool PutFirst(std::optional<int> first, std::vector<MemoryNode>& nodes) {
  const auto is_first = [&](const MemoryNode& node) { return node.index == first; };
  const auto found = std::find_if(nodes.begin(), nodes.end(), is_first);
  if (found == nodes.end()) return false;
  std::rotate(nodes.begin(), found, found + 1);
  return true;
}

std::vector<ArenaOptions> OptionsPerNode(const NodeArenasOptions& options,
                                         const std::vector<std::uint32_t>& frames) {
  std::vector<ArenaOptions> arenas;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    if (frames[i] == 0) continue;
    const MemoryNode& node = options.nodes[i];
    arenas.push_back({.name = options.nodes.size() == 1
                                  ? options.name
                                  : absl::StrCat(options.name, "-node", node.index),
                      .page_bytes = options.page_bytes,
                      .frames = frames[i],
                      .node = node.index,
                      .node_count = options.bind ? node.node_count : 1,
                      .touch_cpus = TouchCpus(node.cpus, options.cpus),
                      .huge_pages = options.huge_pages});
  }
  return arenas;
}

std::string DescribeSplit(const std::vector<ArenaOptions>& arenas) {
  std::string text;
  for (const ArenaOptions& arena : arenas) {
    absl::StrAppendFormat(&text,
                          "%s%s on node %d",
                          text.empty() ? "" : ", ",
                          SizeText(arena.frames * arena.page_bytes),
                          arena.node);
  }
  return text;
}

/// Memory can come from elsewhere only where there are several nodes.
bool LeavesBindingOut(const NodeArenasOptions& options) {
  return !options.bind && std::any_of(options.nodes.begin(),
                                      options.nodes.end(),
                                      [](const MemoryNode& node) { return node.node_count > 1; });
}

/// Reason for which the nodes hold no even shares, or the first one not all; empty if they do.
std::string SplitReason(const NodeArenasOptions& options,
                        const std::vector<std::uint32_t>& frames) {
  if (options.first_node.has_value()) {
    if (frames.front() == options.frames) return "";
    return absl::StrFormat("node %d, which is nearest to the GPU, has %s available of %s",
                           *options.first_node,
                           SizeText(options.nodes.front().available_bytes.value_or(0)),
                           SizeText(options.frames * options.page_bytes));
  }
  if (options.even) return DescribeLack(options.frames, options.page_bytes, options.nodes);
  const auto [least, most] = std::minmax_element(frames.begin(), frames.end());
  return std::string(*most - *least > 1 ? kOffByOption : "");
}

void Append(const std::string& reason, const std::string& prefix, std::string& all) {
  if (!reason.empty()) absl::StrAppend(&all, all.empty() ? "" : "; ", prefix, reason);
}

}  // namespace

absl::StatusOr<std::unique_ptr<NodeArenas>> NodeArenas::Create(const NodeArenasOptions& wanted) {
  if (wanted.nodes.empty() || wanted.frames == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("arenas ", wanted.name, ": need at least one node and one frame"));
  }
  NodeArenasOptions options = wanted;
  if (PutFirst(options.first_node, options.nodes)) {
    options.even = false;
  } else {
    options.first_node.reset();
  }
  SLUICE_ASSIGN_OR_RETURN(const std::vector<std::uint32_t> frames,
                          options.even
                              ? SplitFrames(options.frames, options.page_bytes, options.nodes)
                              : FillNodes(options.frames, options.page_bytes, options.nodes));
  const std::vector<ArenaOptions> per_node = OptionsPerNode(options, frames);
  auto arenas = absl::WrapUnique(new NodeArenas());
  SLUICE_RETURN_IF_ERROR(arenas->MakeArenas(per_node));
  if (LeavesBindingOut(options)) arenas->info_.binding_reason = kOffByOption;
  arenas->info_.split_reason = SplitReason(options, frames);
  arenas->info_.split = DescribeSplit(per_node);
  return arenas;
}

/// Makes each arena on a thread of its own, because touching its memory takes long. An arena binds
/// the threads that touch it.
absl::Status NodeArenas::MakeArenas(const std::vector<ArenaOptions>& options) {
  std::vector<absl::StatusOr<std::unique_ptr<Arena>>> made(options.size());
  std::vector<std::thread> threads;
  absl::Status status;
  for (std::size_t i = 1; status.ok() && i < options.size(); ++i) {
    auto thread = base::StartThread([&, i] {
      base::SetUpThread("sluice-touch", {});
      made[i] = Arena::Create(options[i]);
    });
    status = thread.status();
    if (thread.ok()) threads.push_back(*std::move(thread));
  }
  if (status.ok()) made[0] = Arena::Create(options[0]);
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; status.ok() && i < made.size(); ++i) {
    status = made[i].status();
    if (!status.ok()) break;
    arenas_.push_back(*std::move(made[i]));
    nodes_.push_back(options[i].node);
    cpus_.push_back(options[i].touch_cpus);
    ends_.push_back(FirstFrame(i) + options[i].frames);
  }
  for (std::size_t i = 0; i < arenas_.size(); ++i) AddInfo(i);
  return status;
}

void NodeArenas::AddInfo(std::size_t arena) {
  const ArenaInfo& info = arenas_[arena]->info();
  const std::string node = absl::StrCat("node ", nodes_[arena], ": ");
  Append(info.binding_reason, "", info_.binding_reason);  // the text names the node itself
  Append(info.huge_page_reason, arenas_.size() == 1 ? "" : node, info_.huge_page_reason);
}

NodeArenas::ArenaFrame NodeArenas::ArenaFrameOf(std::uint32_t frame) const {
  const auto end = std::upper_bound(ends_.begin(), ends_.end(), frame);
  SLUICE_CHECK(end != ends_.end(), "a frame is one of those that were made");
  const auto arena = static_cast<std::size_t>(end - ends_.begin());
  return {arena, frame - FirstFrame(arena)};
}

std::uint32_t NodeArenas::PartOf(std::uint32_t frames, std::size_t arena) const {
  return std::clamp(frames, FirstFrame(arena), ends_[arena]) - FirstFrame(arena);
}

std::uint32_t NodeArenas::frame_count() const {
  std::uint32_t count = 0;
  for (std::size_t i = 0; i < arenas_.size(); ++i) {
    count += arenas_[i]->frame_count();
    if (count < ends_[i]) break;
  }
  return count;
}

std::span<std::byte> NodeArenas::Frame(std::uint32_t frame) const {
  const ArenaFrame place = ArenaFrameOf(frame);
  return arenas_[place.arena]->Frame(place.frame);
}

absl::Status NodeArenas::MapAt(std::uint32_t frame, std::byte* address, MapAccess access) const {
  const ArenaFrame place = ArenaFrameOf(frame);
  return arenas_[place.arena]->MapAt(place.frame, address, access);
}

absl::StatusOr<std::uint32_t> NodeArenas::Shrink(std::uint32_t frames) {
  for (std::size_t i = arenas_.size(); i-- > 0;) {
    SLUICE_RETURN_IF_ERROR(arenas_[i]->Shrink(PartOf(frames, i)).status());
  }
  return frame_count();
}

absl::StatusOr<std::uint32_t> NodeArenas::Grow(std::uint32_t frames) {
  if (frames > ends_.back()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "arenas cannot grow to %d frames: they were created with %d", frames, ends_.back()));
  }
  if (frames > frame_count()) info_ = {};
  for (std::size_t i = 0; i < arenas_.size(); ++i) {
    const std::uint32_t part = PartOf(frames, i);
    if (part <= arenas_[i]->frame_count()) continue;
    const absl::Status grown = arenas_[i]->Grow(part).status();
    AddInfo(i);
    SLUICE_RETURN_IF_ERROR(grown);
  }
  return frame_count();
}

std::vector<std::span<std::byte>> NodeArenas::Chunks() const { return ChunksOf(ends_.back()); }

std::vector<std::span<std::byte>> NodeArenas::ChunksOf(std::uint32_t frames) const {
  std::vector<std::span<std::byte>> chunks;
  for (std::size_t i = 0; i < arenas_.size(); ++i) {
    const Arena& arena = *arenas_[i];
    const std::uint32_t step = arena.frames_per_chunk();
    for (std::uint32_t first = 0; first < PartOf(frames, i); first += step) {
      if (first >= arena.frame_count()) break;
      const std::uint32_t count = std::min(step, arena.frame_count() - first);
      chunks.emplace_back(arena.Frame(first).data(), count * arena.page_bytes());
    }
  }
  return chunks;
}

std::uint64_t NodeArenas::allocated_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& arena : arenas_) bytes += arena->allocated_bytes();
  return bytes;
}

double NodeArenas::HugeBytes() const {
  double bytes = 0;
  for (const auto& arena : arenas_) {
    bytes +=
        arena->huge_page_share() * static_cast<double>(arena->frame_count() * arena->page_bytes());
  }
  return bytes;
}

double NodeArenas::huge_page_share() const {
  std::uint64_t bytes = 0;
  for (const auto& arena : arenas_) bytes += arena->frame_count() * page_bytes();
  // The arenas may grow between the two sums.
  return bytes == 0 ? 0.0 : std::min(1.0, HugeBytes() / static_cast<double>(bytes));
}

bool NodeArenas::all_huge() const {
  std::uint64_t possible = 0;
  for (const auto& arena : arenas_) {
    possible += arena->frame_count() * page_bytes() / kHugePageBytes * kHugePageBytes;
  }
  // Huge pages are whole; their sum has passed through shares.
  return HugeBytes() + kHugePageBytes / 2 >= static_cast<double>(possible);
}

}  // namespace sluice::numa
