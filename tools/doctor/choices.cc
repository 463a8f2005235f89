#include <algorithm>

#include "base/strings.h"
#include "fmt/format.h"
#include "sluice/units.h"
#include "tools/doctor/facts.h"

namespace sluice::tools {
namespace {

constexpr double kAllHuge = 0.999;

void Choose(const std::string& what,
            const std::string& chosen,
            const std::string& why,
            Section& section) {
  section.Add(what, {{"chosen", chosen}, {"why", why}}, fmt::format("{} ({})", chosen, why));
}

bool Has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool UsesIoUring(const IoUringFacts& facts) {
  return facts.available && Has(facts.operations, "read") && Has(facts.operations, "write");
}

/// Choice of the page store: io_uring if a ring can be made, and reads and writes.
void ChooseIoEngine(const IoUringFacts& facts, Section& section) {
  if (!facts.available) return Choose("io_engine", "threads", facts.reason, section);
  if (!UsesIoUring(facts)) {
    return Choose("io_engine", "threads", "this kernel's io_uring cannot read and write", section);
  }
  Choose("io_engine", "io_uring", "rings can be made and have what the page store needs", section);
}

void ChooseFileMode(const SpillFacts& facts, Section& section) {
  if (!facts.status.ok()) {
    return Choose("file_mode", "none", std::string(facts.status.message()), section);
  }
  if (facts.direct_reason.empty()) {
    return Choose("file_mode", "direct", "O_DIRECT works in the spill directory", section);
  }
  Choose("file_mode", "buffered", facts.direct_reason, section);
}

void ChooseOverwrites(const SpillFacts& facts, Section& section) {
  if (!facts.status.ok()) return;
  if (facts.nocow_reason.empty()) {
    return Choose("overwrites", "in place", "reserved space is enough for every write", section);
  }
  Choose("overwrites", "copied", facts.nocow_reason, section);
}

void ChooseSpace(const SpillFacts& facts, Section& section) {
  if (!facts.status.ok()) return;
  if (facts.reserved_space_reason.empty()) {
    return Choose("spill_space", "reserved", "fallocate works in the spill directory", section);
  }
  Choose("spill_space", "written in full first", facts.reserved_space_reason, section);
}

void ChooseDevice(const GpuFacts& facts, Section& section) {
  Choose("device",
         "emulated",
         facts.reason.empty() ? "the default; device.kind = \"cuda\" takes the GPU" : facts.reason,
         section);
}

bool AllHuge(const HugePageFacts& facts) {
  return facts.reason.empty() && facts.arena_share >= kAllHuge;
}

void ChoosePages(const HugePageFacts& facts, Section& section) {
  if (AllHuge(facts)) {
    Choose("arena_pages", "2 MiB", "MADV_COLLAPSE gives all of an arena", section);
  } else {
    Choose("arena_pages", "4 KiB", facts.reason, section);
  }
}

/// Change that device.kind = "cuda" makes to the split among nodes; empty: none.
std::string WithGpu(const GpuFacts& gpu, const std::vector<numa::MemoryNode>& nodes) {
  if (nodes.size() < 2 || gpu.devices.empty()) return "";
  const int near = gpu.devices.front().node;
  const bool is_there = std::any_of(
      nodes.begin(), nodes.end(), [&](const numa::MemoryNode& node) { return node.index == near; });
  return is_there ? fmt::format("; device.kind = \"cuda\" fills node {}, the GPU's, first", near)
                  : "";
}

std::string WhyTheseNodes(std::size_t chosen, std::size_t all) {
  if (all == 1) return "the only one";
  if (chosen == all) return fmt::format("all {}, in even shares", all);
  return fmt::format(
      "of {}, those that this process may allocate from and whose processors it may use", all);
}

void ChooseNodes(const Facts& facts, Section& section) {
  const DramNodeFacts& dram = facts.dram_nodes;
  if (!facts.topology.ok() || dram.nodes.empty()) return;
  if (!dram.binding_reason.empty()) {
    return Choose("arena_nodes", "any node", dram.binding_reason, section);
  }
  std::string names = dram.nodes.size() == 1 ? "node" : "nodes";
  const char* separator = " ";
  for (const numa::MemoryNode& node : dram.nodes) {
    names += fmt::format("{}{}", separator, node.index);
    separator = ", ";
  }
  const std::size_t all = facts.topology->nodes.size();
  const std::string why = WhyTheseNodes(dram.nodes.size(), all) + WithGpu(facts.gpu, dram.nodes);
  Choose("arena_nodes", names, why, section);
}

/// One node's memory is what the next line tells.
void AddNodeMemory(const std::vector<numa::MemoryNode>& nodes, Section& section) {
  if (nodes.size() < 2) return;
  auto json = nlohmann::ordered_json::array();
  std::string text;
  for (const numa::MemoryNode& node : nodes) {
    if (!node.available_bytes) continue;
    json.push_back({{"node", node.index}, {"available_bytes", *node.available_bytes}});
    text += fmt::format("{}node {}: {}",
                        text.empty() ? "" : ", ",
                        node.index,
                        ToString(Bytes(*node.available_bytes)));
  }
  section.Add("arena_memory_max", std::move(json), std::move(text));
}

/// The limit that keeps budgets from being larger.
std::string LimitOfBudgets(const Facts& facts, Bytes budgets) {
  const numa::MemoryLimits& limits = *facts.limits;
  constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20;
  const std::uint64_t mappable =
      MappableBytes(limits.max_map_count, facts.needs.runtime.page_bytes.count());
  if (budgets.count() + kMebibyte > mappable) {
    return fmt::format("vm.max_map_count of {} allows no more pages", limits.max_map_count);
  }
  return fmt::format("{} of {} for {}, the rest is for what it takes beside them",
                     ToString(Bytes(limits.available_bytes)),
                     limits.available_source,
                     facts.job);
}

/// The sum is that of train's check, so that train takes the budgets proposed here.
void AddBudget(const Facts& facts, Section& section) {
  if (!facts.limits.ok()) return;
  const Bytes budgets = LargestBudgets(facts.needs, *facts.limits);
  section.Add("budget_bytes_max",
              budgets.count(),
              fmt::format("{} for dram and the emulated hbm together, on pages of {} ({})",
                          ToString(budgets),
                          ToString(facts.needs.runtime.page_bytes),
                          LimitOfBudgets(facts, budgets)));
}

void AddJob(const Facts& facts, Section& section) {
  if (!facts.job_fits.has_value()) return;
  const bool fits = facts.job_fits->ok();
  section.Add("job_fits",
              fits,
              fits ? "yes" : fmt::format("no: {}", base::ToStd(facts.job_fits->message())));
}

/// Adds the fallbacks that a run announces, and the keys that make it fail instead. An empty key:
/// no key does.
void AddFallbacks(const Facts& facts, Section& section) {
  auto json = nlohmann::ordered_json::array();
  std::string text;
  const auto add = [&](bool falls_back, const char* what, const std::string& key) {
    if (!falls_back) return;
    json.push_back({{"what", what}});
    if (!key.empty()) json.back()["forbidden_by"] = key;
    const std::string how = key.empty() ? "no key forbids it" : "forbidden by " + key;
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", what, how);
  };
  const bool slow = facts.compute.ok() && gpt::FallbackOf(*facts.compute).has_value();
  add(slow, "matrix_products", "");
  add(!UsesIoUring(facts.io_uring), "io_uring", "io.io_uring = \"require\"");
  add(facts.spill.status.ok() && !facts.spill.direct_reason.empty(),
      "o_direct",
      "io.direct = \"require\"");
  add(facts.spill.status.ok() && !facts.spill.nocow_reason.empty(),
      "nocow",
      "io.nocow = \"require\"");
  add(facts.spill.status.ok() && !facts.spill.reserved_space_reason.empty(),
      "reserved_space",
      "io.reserved_space = \"require\"");
  add(!AllHuge(facts.huge_pages), "huge_pages", "memory.huge_pages = \"require\"");
  add(!facts.dram_nodes.binding_reason.empty(),
      "numa_binding",
      "memory.numa_binding = \"require\"");
  section.Add("fallbacks", std::move(json), text.empty() ? "none" : std::move(text));
}

}  // namespace

Section DescribeChoices(const Facts& facts) {
  Section section("choices");
  ChooseDevice(facts.gpu, section);
  ChooseIoEngine(facts.io_uring, section);
  ChooseFileMode(facts.spill, section);
  ChooseOverwrites(facts.spill, section);
  ChooseSpace(facts.spill, section);
  ChoosePages(facts.huge_pages, section);
  ChooseNodes(facts, section);
  AddNodeMemory(facts.dram_nodes.nodes, section);
  AddBudget(facts, section);
  AddJob(facts, section);
  if (!facts.cpu.simd.empty()) {
    Choose("simd", facts.cpu.simd.front(), "the best that this processor has", section);
  }
  AddFallbacks(facts, section);
  return section;
}

}  // namespace sluice::tools
