#include <string>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "runtime/engine/api/runtime_state.h"
#include "runtime/engine/report/memory_fallbacks.h"
#include "runtime/engine/setup/memory_needs.h"

namespace sluice::internal {
namespace {

/// The reason why nothing of the tier can be shown; empty when it can.
std::string WhyHidden(const engine::TierSet& tiers, core::TierIndex tier) {
  if (!tiers.exists(tier)) return {};
  if (!tiers.is_store(tier)) {
    return tiers.memory(tier)->host_accessible()
               ? ""
               : fmt::format("the processor does not address {}", ToString(tiers.id(tier)));
  }
  return std::string(base::ToStd(tiers.store()->CheckMappable().message()));
}

}  // namespace

absl::StatusOr<std::span<const std::byte>> RuntimeState::AddressOf(TensorId tensor) const {
  SLUICE_ASSIGN_OR_RETURN(const auto found, FindTensor(tensor));
  if (found->spec.lowest != TierKind::kHbm) {
    return table_.AddressIn(*tiers_->IndexOf(kDram0), *tiers_, tensor);
  }
  return absl::InvalidArgumentError(fmt::format(
      "tensor '{}' has no address in dram, as its lowest tier is hbm", found->spec.name));
}

absl::Status RuntimeState::AddView(engine::Segment& segment) {
  if (!segment.readable()) return absl::OkStatus();
  const core::TierIndex view = *segment.parts().view;
  SLUICE_RETURN_IF_ERROR(
      engine::CheckViewPages(table_.readable_pages() + segment.parts().pages, *tiers_));
  SLUICE_RETURN_IF_ERROR(segment.EnsureRange(view, *tiers_->memory(view)).status());
  // Called when some pages cannot be shown outside a lease.
  const auto tell = [this](bool first, std::string_view reason) -> absl::Status {
    const FallbackEvent event = engine::HiddenPages(reason);
    SLUICE_RETURN_IF_ERROR(engine::CheckAllowed(options_.memory, event));
    if (first) Announce(event);
    return absl::OkStatus();
  };
  engine::PageViews& views = mover_->views();
  const bool off = options_.memory.off_lease == Use::kOff;
  for (core::TierIndex tier = 0; tier < tiers_->size(); ++tier) {
    const bool elsewhere = tier != view && tiers_->exists(tier);
    const std::string reason =
        off && elsewhere ? std::string(kOffByOption) : WhyHidden(*tiers_, tier);
    if (reason.empty()) continue;
    const bool first = views.HideTier(tier);
    SLUICE_RETURN_IF_ERROR(
        tell(first, fmt::format("pages in {}: {}", ToString(tiers_->id(tier)), reason)));
  }
  if (!segment.parts().has_home()) return views.AddZeros(segment);
  absl::Status mapped =
      off ? absl::UnimplementedError(base::ToAbsl(kOffByOption)) : views.AddHome(segment);
  if (mapped.ok()) return mapped;
  return tell(views.HideHome(segment),
              fmt::format("the file home of tensor '{}': {}",
                          segment.parts().tensors.front()->spec.name,
                          base::ToStd(mapped.message())));
}

void RuntimeState::Announce(const FallbackEvent& event) {
  if (!health_.NoteFallback(event)) return;
  mailbox_->Push(engine::CallRequest{[this, event] { core_thread_->Announce(event); }});
}

}  // namespace sluice::internal
