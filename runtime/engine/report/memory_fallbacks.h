#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "sluice/events.h"
#include "sluice/options.h"

namespace sluice::engine {

/// What memory can lack, as FallbackEvent::what, and the option that forbids to go on without.
inline constexpr std::string_view kHugePagesFallback = "huge_pages";
inline constexpr std::string_view kBindingFallback = "numa_binding";
inline constexpr std::string_view kSplitFallback = "numa_split";
inline constexpr std::string_view kOffLeaseFallback = "off_lease";

/// Memory of `tier` of which `share` (0 to 1) is on huge pages; `reason` may be empty.
FallbackEvent SmallPages(std::string_view tier, double share, std::string_view reason);

/// Pages of tensors with OffLease::kReadable that cannot be shown; `reason` says which and why.
FallbackEvent HiddenPages(std::string_view reason);

/// Errors: FailedPrecondition when the options forbid the fallback; it names what is lacking, why,
/// and the key that would allow it.
absl::Status CheckAllowed(const MemoryOptions& options, const FallbackEvent& fallback);

}  // namespace sluice::engine
