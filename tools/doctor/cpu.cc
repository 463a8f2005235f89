#include <sched.h>

#include <bit>
#include <cstdint>
#include <fstream>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "hwy/targets.h"
#include "tools/doctor/facts.h"

namespace sluice::tools {
namespace {

std::string ReadModel(const std::string& root) {
  std::ifstream file(root + "/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "";
}

/// Highway gives the better instruction set the lower bit.
std::vector<std::string> SimdTargets() {
  std::vector<std::string> names;
  for (auto bits = static_cast<std::uint64_t>(hwy::SupportedTargets()); bits != 0;
       bits &= bits - 1) {
    names.emplace_back(
        hwy::TargetName(static_cast<std::int64_t>(std::uint64_t{1} << std::countr_zero(bits))));
  }
  return names;
}

}  // namespace

CpuFacts ReadCpu(const std::string& root) {
  CpuFacts facts{.model = ReadModel(root), .allowed = 0, .simd = SimdTargets()};
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) facts.allowed = CPU_COUNT(&allowed);
  return facts;
}

Section DescribeCpu(const CpuFacts& facts) {
  Section section("cpu");
  if (!facts.model.empty()) section.Add("model", facts.model);
  section.Add("processors", facts.allowed, fmt::format("{} for this process", facts.allowed));
  if (!facts.simd.empty()) {
    section.Add("simd", facts.simd.front());
    section.Add("simd_available", facts.simd, fmt::format("{}", fmt::join(facts.simd, ", ")));
  }
  if (facts.allowed == 1) {
    section.Warn("one processor: copies and hashes take their time from the compute");
  }
  return section;
}

}  // namespace sluice::tools
