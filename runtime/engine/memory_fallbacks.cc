#include "runtime/engine/memory_fallbacks.h"

#include <array>

#include "fmt/format.h"

namespace sluice::engine {
namespace {

struct Rule {
  std::string_view what;
  std::string_view name;  ///< in a sentence
  std::string_view key;
  bool MemoryOptions::*required;
};

constexpr std::array kRules = {
    Rule{kHugePagesFallback,
         "memory on 2 MiB pages",
         "memory.require_huge_pages",
         &MemoryOptions::require_huge_pages},
    Rule{kBindingFallback,
         "memory bound to its NUMA node",
         "memory.require_numa_binding",
         &MemoryOptions::require_numa_binding},
    Rule{kSplitFallback,
         "an even share of dram on every NUMA node",
         "memory.require_even_split",
         &MemoryOptions::require_even_split},
};

}  // namespace

FallbackEvent SmallPages(std::string_view tier, double share, std::string_view reason) {
  return {std::string(kHugePagesFallback),
          fmt::format("{:.0f} % of {} is on 2 MiB pages{}{}",
                      share * 100,
                      tier,
                      reason.empty() ? "" : ": ",
                      reason),
          "4 KiB pages for the rest"};
}

absl::Status CheckAllowed(const MemoryOptions& options, const FallbackEvent& fallback) {
  for (const Rule& rule : kRules) {
    if (rule.what != fallback.what || !(options.*rule.required)) continue;
    return absl::FailedPreconditionError(
        fmt::format("{} is required but refused: {}; {} = false allows {}",
                    rule.name,
                    fallback.reason,
                    rule.key,
                    fallback.chosen));
  }
  return absl::OkStatus();
}

}  // namespace sluice::engine
