#include "runtime/engine/control/tier_budgets.h"

#include <algorithm>
#include <cstdint>
#include <future>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "runtime/engine/setup/memory_needs.h"
#include "runtime/engine/setup/option_limits.h"

namespace sluice::engine {

TierBudgets::TierBudgets(const Parts& parts, std::vector<core::FrameIndex> frames)
    : parts_(parts), tiers_(parts.backends->tiers()), frames_(std::move(frames)) {}

core::FrameIndex TierBudgets::Of(core::TierIndex tier) const {
  base::MutexLock lock(mutex_);
  return frames_[tier];
}

absl::Status TierBudgets::CheckWanted(core::TierIndex tier, Bytes bytes) const {
  const std::uint64_t wanted = bytes.count() / tiers_.page_bytes();
  const core::FrameIndex least = FramesMin(/*middle=*/tier > 0);
  const core::FrameIndex most = tiers_.tier(tier).frames;
  if (wanted >= least && wanted <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "the budget of {} cannot be {}; it is at least {} and at most the {} that the runtime was "
      "created with",
      ToString(tiers_.id(tier)),
      ToString(bytes),
      ToString(tiers_.PagesToBytes(least)),
      ToString(tiers_.PagesToBytes(most))));
}

absl::Status TierBudgets::Set(TierId tier, Bytes bytes) {
  SLUICE_ASSIGN_OR_RETURN(const core::TierIndex index, tiers_.LeasableIndexOf(tier));
  SLUICE_RETURN_IF_ERROR(CheckWanted(index, bytes));
  const auto frames = static_cast<core::FrameIndex>(bytes.count() / tiers_.page_bytes());
  base::MutexLock one_at_a_time(change_mutex_);
  const core::FrameIndex before = Of(index);
  // Frames are there before the core may use them, and go only when it uses them no more.
  if (frames > before) SLUICE_RETURN_IF_ERROR(TakeMemory(index, frames));
  absl::Status changed = TellCore(index, frames);
  if (absl::IsCancelled(changed)) return changed;
  if (!changed.ok() && Undo(index, before)) return changed;
  if (changed.ok() && frames > before) AnnounceFallbacks(index);
  base::MutexLock lock(mutex_);
  frames_[index] = frames;
  return changed;
}

absl::Status TierBudgets::ResizeNow(core::TierIndex tier, core::FrameIndex frames) {
  std::promise<absl::Status> reply;
  auto resized = reply.get_future();
  parts_.mover->Resize(tier, frames, [&reply](absl::Status status) { reply.set_value(status); });
  return resized.get();
}

absl::Status TierBudgets::TellCore(core::TierIndex tier, core::FrameIndex frames) {
  BudgetRequest request{.tier = tier, .frames = frames};
  auto reply = request.reply.get_future();
  if (!parts_.mailbox->Push(std::move(request))) return ShutDownError();
  return reply.get();
}

absl::Status TierBudgets::TakeMemory(core::TierIndex tier, core::FrameIndex frames) {
  const std::uint64_t wanted = tiers_.PagesToBytes(frames).count();
  const std::uint64_t held = tiers_.memory(tier)->allocated_bytes();
  // A GPU says itself what it has.
  if (tiers_.memory(tier)->host_accessible()) {
    SLUICE_RETURN_IF_ERROR(CheckGrowth(tiers_.id(tier), wanted - std::min(wanted, held)));
  }
  absl::Status taken = ResizeNow(tier, frames);
  if (taken.ok()) taken = parts_.backends->CheckAllowed(tiers_.id(tier));
  if (taken.ok()) return taken;
  // The core knows nothing of these frames yet.
  const absl::Status given_back = ResizeNow(tier, Of(tier));
  return given_back.ok() ? taken : base::Annotate(taken, "memory was not given back");
}

bool TierBudgets::Undo(core::TierIndex tier, core::FrameIndex before) {
  // A refusal of the core leaves nothing to do. If the core did its part and the system did not,
  // the frames must be there again before the core may use them.
  // Fallbacks of that memory are announced even where they are forbidden: pages may lie in it
  // already.
  if (!ResizeNow(tier, before).ok()) return false;
  AnnounceFallbacks(tier);
  TellCore(tier, before).IgnoreError();
  return true;
}

void TierBudgets::AnnounceFallbacks(core::TierIndex tier) {
  for (const FallbackEvent& event : parts_.backends->TakeFallbacks(tiers_.id(tier))) {
    parts_.health->NoteFallback(event);
    parts_.mailbox->Push(
        CallRequest{[thread = parts_.core_thread, event] { thread->Announce(event); }});
  }
}

}  // namespace sluice::engine
