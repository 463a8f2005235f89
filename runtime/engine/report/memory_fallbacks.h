#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "sluice/events.h"
#include "sluice/options.h"

namespace sluice::engine {

/// Features that memory can lack, as FallbackEvent::what. For each an option forbids to go on
/// without it.
inline constexpr std::string_view kHugePagesFallback = "huge_pages";
inline constexpr std::string_view kBindingFallback = "numa_binding";
inline constexpr std::string_view kSplitFallback = "numa_split";
inline constexpr std::string_view kOffLeaseFallback = "off_lease";

/// Fallback for memory of `tier` with only `share` (0 to 1) on huge pages; `reason` may be empty.
FallbackEvent SmallPages(std::string_view tier, double share, std::string_view reason);

/// Fallback for pages of tensors with OffLease::kReadable that cannot be shown. `reason` says which
/// and why.
FallbackEvent HiddenPages(std::string_view reason);

/// Whether the options allow the fallback. Errors: FailedPrecondition that names the lacking
/// feature, the cause and the key that would allow it.
absl::Status CheckAllowed(const MemoryOptions& options, const FallbackEvent& fallback);

}  // namespace sluice::engine
