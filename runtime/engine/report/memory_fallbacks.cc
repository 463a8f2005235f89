#include "runtime/engine/report/memory_fallbacks.h"

#include <array>

#include "fmt/format.h"

namespace sluice::engine {
namespace {

struct Rule {
  std::string_view what;
  std::string_view name;  ///< name in a sentence
  std::string_view key;
  Use MemoryOptions::*use;
};

constexpr std::array kRules = {
    Rule{kHugePagesFallback,
         "memory on 2 MiB pages",
         "memory.huge_pages",
         &MemoryOptions::huge_pages},
    Rule{kBindingFallback,
         "memory bound to its NUMA node",
         "memory.numa_binding",
         &MemoryOptions::numa_binding},
    Rule{kSplitFallback,
         "an even share of dram on every NUMA node",
         "memory.even_split",
         &MemoryOptions::even_split},
    Rule{kOffLeaseFallback,
         "every page readable outside a lease",
         "memory.off_lease",
         &MemoryOptions::off_lease},
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

FallbackEvent HiddenPages(std::string_view reason) {
  return {std::string(kOffLeaseFallback),
          std::string(reason),
          "a SIGSEGV where they are read outside a lease"};
}

absl::Status CheckAllowed(const MemoryOptions& options, const FallbackEvent& fallback) {
  for (const Rule& rule : kRules) {
    if (rule.what != fallback.what || options.*rule.use != Use::kRequire) continue;
    return absl::FailedPreconditionError(
        fmt::format("{} is required but refused: {}; {} = \"auto\" allows {}",
                    rule.name,
                    fallback.reason,
                    rule.key,
                    fallback.chosen));
  }
  return absl::OkStatus();
}

}  // namespace sluice::engine
