#include <algorithm>
#include <cstdlib>

#include "fmt/format.h"
#include "numa/arena.h"
#include "tools/doctor/facts.h"
#include "tools/doctor/probe_file.h"

namespace sluice::tools {
namespace {

constexpr std::uint64_t kProbePageBytes = std::uint64_t{2} << 20;
constexpr std::uint64_t kProbePagesMax = 8;

}  // namespace

HugePageFacts ReadHugePages(const std::string& root, std::uint64_t bytes_max) {
  const std::string settings = root + "/sys/kernel/mm/transparent_hugepage/";
  HugePageFacts facts;
  facts.enabled = Bracketed(ReadLine(settings + "enabled"));
  facts.shmem_enabled = Bracketed(ReadLine(settings + "shmem_enabled"));
  facts.reserved = std::strtoull(ReadLine(root + "/proc/sys/vm/nr_hugepages").c_str(), nullptr, 10);
  const std::uint64_t pages = std::min(bytes_max / kProbePageBytes, kProbePagesMax);
  if (pages == 0) {
    facts.reason = "no memory to try it";
    return facts;
  }
  const auto arena = numa::Arena::Create({.name = "doctor",
                                          .page_bytes = kProbePageBytes,
                                          .frames = static_cast<std::uint32_t>(pages),
                                          .node = -1});
  if (arena.ok()) {
    facts.arena_share = (*arena)->huge_page_share();
    facts.reason = (*arena)->info().huge_page_reason;
  } else {
    facts.reason = std::string(arena.status().message());
  }
  return facts;
}

Section DescribeHugePages(const HugePageFacts& facts) {
  Section section("huge_pages");
  if (facts.enabled.empty()) {
    section.Warn("this kernel has no transparent huge pages");
  } else {
    section.Add("transparent", facts.enabled);
  }
  if (!facts.shmem_enabled.empty()) section.Add("shared_memory", facts.shmem_enabled);
  section.Add("reserved_pages", facts.reserved, fmt::format("{}", facts.reserved));
  section.Add("arena_share",
              facts.arena_share,
              fmt::format("{:.0f} % of a test arena on 2 MiB pages", facts.arena_share * 100));
  if (!facts.reason.empty()) {
    section.Warn(facts.reason + ": disks and copies are slower from 4 KiB pages");
  }
  return section;
}

}  // namespace sluice::tools
