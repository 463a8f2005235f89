#include <algorithm>

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

/// As the page store chooses: a ring that can be made, and that reads and writes.
void ChooseIoEngine(const IoUringFacts& facts, Section& section) {
  if (!facts.available) return Choose("io_engine", "threads", facts.reason, section);
  if (!Has(facts.operations, "read") || !Has(facts.operations, "write")) {
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

void ChooseDevice(const GpuFacts& facts, Section& section) {
  Choose("device",
         "emulated",
         facts.reason.empty() ? "this build has no CUDA backend" : facts.reason,
         section);
}

void ChooseMemory(const Facts& facts, Section& section) {
  const HugePageFacts& huge = facts.huge_pages;
  if (huge.reason.empty() && huge.arena_share >= kAllHuge) {
    Choose("arena_pages", "2 MiB", "MADV_COLLAPSE gives all of an arena", section);
  } else {
    Choose("arena_pages", "4 KiB", huge.reason, section);
  }
  if (facts.topology.ok()) {
    const std::size_t nodes = facts.topology->nodes.size();
    Choose("arena_node",
           "node 0",
           nodes == 1 ? "the only one" : fmt::format("the first of {}", nodes),
           section);
  }
  if (!facts.limits.ok()) return;
  const numa::MemoryLimits& limits = *facts.limits;
  section.Add("budget_bytes_max",
              limits.available_bytes,
              fmt::format("{} for dram and the emulated hbm together ({})",
                          ToString(Bytes(limits.available_bytes)),
                          limits.available_bytes < limits.system_available_bytes && limits.cgroup
                              ? "what the control group " + limits.cgroup->path + " leaves"
                              : std::string("what the system has available")));
}

}  // namespace

Section DescribeChoices(const Facts& facts) {
  Section section("choices");
  ChooseDevice(facts.gpu, section);
  ChooseIoEngine(facts.io_uring, section);
  ChooseFileMode(facts.spill, section);
  ChooseMemory(facts, section);
  if (!facts.cpu.simd.empty()) {
    Choose("simd", facts.cpu.simd.front(), "the best that this processor has", section);
  }
  return section;
}

}  // namespace sluice::tools
