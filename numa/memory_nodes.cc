#include "numa/memory_nodes.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <limits>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "numa/binding.h"

namespace sluice::numa {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

/// "0-2,5" as numbers; what is no number is left out.
std::vector<int> ParseList(absl::string_view text) {
  std::vector<int> numbers;
  for (const absl::string_view part : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    const std::vector<absl::string_view> ends = absl::StrSplit(part, '-');
    int first = 0;
    int last = 0;
    if (!absl::SimpleAtoi(ends.front(), &first) || !absl::SimpleAtoi(ends.back(), &last)) continue;
    for (int number = first; number <= last; ++number) numbers.push_back(number);
  }
  return numbers;
}

/// Mems_allowed_list of this process; empty where the kernel has no cpusets.
std::vector<int> AllowedNodes(const std::string& root) {
  std::ifstream status(root + "/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    absl::string_view rest = line;
    if (!absl::ConsumePrefix(&rest, "Mems_allowed_list:")) continue;
    return ParseList(absl::StripAsciiWhitespace(rest));
  }
  return {};
}

/// Lines are "Node 0 MemFree:  123 kB".
std::optional<std::uint64_t> AvailableBytes(const std::string& root, int node) {
  std::ifstream file(absl::StrFormat("%s/sys/devices/system/node/node%d/meminfo", root, node));
  std::optional<std::uint64_t> bytes;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word, number, key;
    std::uint64_t kib = 0;
    if (!(words >> word >> number >> key >> kib)) continue;
    if (key == "MemFree:" || key == "Active(file):" || key == "Inactive(file):" ||
        key == "SReclaimable:") {
      bytes = bytes.value_or(0) + kib * 1024;
    }
  }
  return bytes;
}

/// Keeps the nodes that fit, unless none does.
void Narrow(std::vector<const NodeInfo*>& nodes, const std::function<bool(const NodeInfo&)>& fits) {
  std::vector<const NodeInfo*> kept;
  std::copy_if(nodes.begin(), nodes.end(), std::back_inserter(kept), [&](const NodeInfo* node) {
    return fits(*node);
  });
  if (!kept.empty()) nodes = std::move(kept);
}

void NarrowToList(std::vector<const NodeInfo*>& nodes, const std::vector<int>& indices) {
  Narrow(nodes, [&](const NodeInfo& node) {
    return std::find(indices.begin(), indices.end(), node.index) != indices.end();
  });
}

std::uint64_t EvenShare(std::uint32_t frames, std::size_t node, std::size_t node_count) {
  return frames / node_count + (node == 0 ? frames % node_count : 0);
}

std::uint64_t FramesIn(const MemoryNode& node, std::uint64_t page_bytes) {
  return node.available_bytes ? *node.available_bytes / page_bytes
                              : std::numeric_limits<std::uint32_t>::max();
}

/// Hands `left` frames to nodes that have room, evenly. Returns what found no room.
std::uint64_t Distribute(std::uint64_t left,
                         const std::vector<std::uint64_t>& room,
                         std::vector<std::uint64_t>& shares) {
  for (;;) {
    const auto has_room = [&](std::size_t i) { return shares[i] < room[i]; };
    std::size_t open = 0;
    for (std::size_t i = 0; i < shares.size(); ++i) open += has_room(i) ? 1 : 0;
    if (left == 0 || open == 0) return left;
    const std::uint64_t each = (left + open - 1) / open;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      if (!has_room(i)) continue;
      const std::uint64_t given = std::min({each, room[i] - shares[i], left});
      shares[i] += given;
      left -= given;
    }
  }
}

absl::Status NoMemory(std::uint64_t left,
                      std::uint32_t frames,
                      std::uint64_t page_bytes,
                      const std::vector<MemoryNode>& nodes) {
  return absl::ResourceExhaustedError(
      absl::StrFormat("%s of dram find no memory: %s, and no other node has more to give",
                      SizeText(left * page_bytes),
                      DescribeLack(frames, page_bytes, nodes)));
}

}  // namespace

absl::StatusOr<std::vector<MemoryNode>> ListMemoryNodes(const Topology& topology,
                                                        const std::string& root_path) {
  if (topology.nodes.empty()) return absl::InternalError("this machine has no NUMA node");
  const std::string root = root_path == "/" ? "" : root_path;
  std::vector<const NodeInfo*> chosen;
  for (const NodeInfo& node : topology.nodes) chosen.push_back(&node);
  Narrow(chosen, [](const NodeInfo& node) { return node.memory_bytes > 0; });
  NarrowToList(chosen, AllowedNodes(root));
  const int node_count = static_cast<int>(chosen.size());
  const bool only = topology.nodes.size() == 1;  // the only node's memory is the system's
  NarrowToList(chosen, PolicyNodes());
  Narrow(chosen, [](const NodeInfo& node) { return !node.cpu_less(); });
  std::vector<MemoryNode> nodes;
  for (const NodeInfo* node : chosen) {
    nodes.push_back({.index = node->index,
                     .node_count = node_count,
                     .available_bytes = only ? std::nullopt : AvailableBytes(root, node->index),
                     .cpus = node->cpus});
  }
  return nodes;
}

std::optional<int> NodeOfPci(const std::string& address, const std::string& root) {
  // The system writes addresses in small letters, and -1 where the firmware names no node.
  const std::string name = absl::AsciiStrToLower(address);
  std::ifstream file(absl::StrCat(root, "/sys/bus/pci/devices/", name, "/numa_node"));
  int node = -1;
  if (!(file >> node) || node < 0) return std::nullopt;
  return node;
}

absl::StatusOr<std::vector<std::uint32_t>> SplitFrames(std::uint32_t frames,
                                                       std::uint64_t page_bytes,
                                                       const std::vector<MemoryNode>& nodes) {
  std::vector<std::uint64_t> room;
  std::vector<std::uint64_t> shares;
  std::uint64_t left = frames;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    room.push_back(FramesIn(nodes[i], page_bytes));
    shares.push_back(std::min(room[i], EvenShare(frames, i, nodes.size())));
    left -= shares[i];
  }
  left = Distribute(left, room, shares);
  if (left > 0) return NoMemory(left, frames, page_bytes, nodes);
  return std::vector<std::uint32_t>(shares.begin(), shares.end());
}

absl::StatusOr<std::vector<std::uint32_t>> FillNodes(std::uint32_t frames,
                                                     std::uint64_t page_bytes,
                                                     const std::vector<MemoryNode>& nodes) {
  std::vector<std::uint32_t> shares;
  std::uint32_t left = frames;
  for (const MemoryNode& node : nodes) {
    shares.push_back(
        static_cast<std::uint32_t>(std::min<std::uint64_t>(left, FramesIn(node, page_bytes))));
    left -= shares.back();
  }
  if (left > 0) return NoMemory(left, frames, page_bytes, nodes);
  return shares;
}

std::string SizeText(std::uint64_t bytes) {
  return bytes >= 10 * kMiB ? absl::StrCat(bytes / kMiB, " MiB")
                            : absl::StrCat(bytes / 1024, " KiB");
}

std::string DescribeLack(std::uint32_t frames,
                         std::uint64_t page_bytes,
                         const std::vector<MemoryNode>& nodes) {
  std::string text;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::uint64_t share = EvenShare(frames, i, nodes.size());
    if (FramesIn(nodes[i], page_bytes) >= share) continue;
    absl::StrAppendFormat(&text,
                          "%snode %d has %s available, an even share is %s",
                          text.empty() ? "" : "; ",
                          nodes[i].index,
                          SizeText(nodes[i].available_bytes.value_or(0)),
                          SizeText(share * page_bytes));
  }
  return text;
}

}  // namespace sluice::numa
