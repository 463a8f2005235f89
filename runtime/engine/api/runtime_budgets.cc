#include <algorithm>
#include <cstddef>
#include <latch>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/status.h"
#include "fmt/format.h"
#include "runtime/device/emulated_stream.h"
#include "runtime/engine/api/runtime_state.h"
#include "runtime/engine/setup/memory_needs.h"
#include "runtime/engine/setup/option_limits.h"

namespace sluice::internal {
namespace {

absl::StatusOr<std::unique_ptr<device::Stream>> MakeDeviceStream(device::Device* device,
                                                                 std::optional<void*> adopted,
                                                                 const std::vector<int>& cpus) {
  if (device == nullptr && adopted.has_value()) {
    return absl::InvalidArgumentError("this runtime has no device, and no stream of one");
  }
  if (device == nullptr) return device::MakeEmulatedStream(cpus);
  return adopted.has_value() ? device->AdoptStream(*adopted) : device->CreateStream();
}

}  // namespace

absl::StatusOr<std::shared_ptr<ReservationState>> RuntimeState::Reserve(TierId tier, Bytes bytes) {
  SLUICE_ASSIGN_OR_RETURN(const core::TierIndex index, tiers_->LeasableIndexOf(tier));
  const std::uint64_t page_bytes = tiers_->page_bytes();
  const std::uint64_t frames = bytes.count() / page_bytes + (bytes.count() % page_bytes != 0);
  const core::FrameIndex budget = BudgetOf(index);
  if (frames == 0 || frames > budget) {
    return absl::InvalidArgumentError(fmt::format("{} cannot be reserved in {}, which has {}",
                                                  ToString(bytes),
                                                  ToString(tier),
                                                  ToString(tiers_->PagesToBytes(budget))));
  }
  engine::ReserveRequest request{.tier = index, .frames = static_cast<std::uint32_t>(frames)};
  auto reply = request.reply.get_future();
  if (!mailbox_->Push(std::move(request))) return ShutDownError();
  SLUICE_ASSIGN_OR_RETURN(const engine::FrameGrant grant, reply.get());
  std::vector<std::span<std::byte>> spans;
  spans.reserve(grant.frames.size());
  std::latch settled(static_cast<std::ptrdiff_t>(grant.frames.size()));
  for (const core::FrameIndex frame : grant.frames) {
    engine::MemoryTier& memory = *tiers_->memory(index);
    spans.push_back(memory.Frame(frame));
    memory.WhenSettled(frame, [&settled] { settled.count_down(); });
  }
  settled.wait();  // it is pinned from here on
  return engine::MakeOwned<ReservationState>(mailbox_, grant.reservation, std::move(spans));
}

core::FrameIndex RuntimeState::BudgetOf(core::TierIndex tier) const {
  base::MutexLock lock(budgets_mutex_);
  return budgets_[tier];
}

absl::Status RuntimeState::ResizeNow(core::TierIndex tier, core::FrameIndex frames) {
  std::promise<absl::Status> reply;
  auto resized = reply.get_future();
  mover_->Resize(tier, frames, [&reply](absl::Status status) { reply.set_value(status); });
  return resized.get();
}

absl::Status RuntimeState::ChangeBudget(core::TierIndex tier, core::FrameIndex frames) {
  engine::BudgetRequest request{.tier = tier, .frames = frames};
  auto reply = request.reply.get_future();
  if (!mailbox_->Push(std::move(request))) return ShutDownError();
  return reply.get();
}

absl::Status RuntimeState::SetBudget(TierId tier, Bytes bytes) {
  SLUICE_ASSIGN_OR_RETURN(const core::TierIndex index, tiers_->LeasableIndexOf(tier));
  const std::uint64_t wanted = bytes.count() / tiers_->page_bytes();
  const core::FrameIndex least = engine::FramesMin(/*middle=*/index > 0);
  if (wanted < least || wanted > tiers_->tier(index).frames) {
    return absl::InvalidArgumentError(fmt::format(
        "the budget of {} cannot be {}; it is at least {} and at most the {} that the runtime was "
        "created with",
        ToString(tier),
        ToString(bytes),
        ToString(tiers_->PagesToBytes(least)),
        ToString(tiers_->PagesToBytes(tiers_->tier(index).frames))));
  }
  const auto frames = static_cast<core::FrameIndex>(wanted);
  base::MutexLock one_at_a_time(budget_change_mutex_);
  const core::FrameIndex before = BudgetOf(index);
  // Frames are there before the core may use them, and go only when it uses them no more.
  if (frames > before) SLUICE_RETURN_IF_ERROR(TakeMemory(index, frames));
  absl::Status changed = ChangeBudget(index, frames);
  if (absl::IsCancelled(changed)) return changed;
  if (!changed.ok() && UndoBudgetChange(index, before)) return changed;
  if (changed.ok() && frames > before) AnnounceFallbacks(tier);
  base::MutexLock lock(budgets_mutex_);
  budgets_[index] = frames;
  return changed;
}

absl::Status RuntimeState::TakeMemory(core::TierIndex tier, core::FrameIndex frames) {
  const std::uint64_t wanted = tiers_->PagesToBytes(frames).count();
  const std::uint64_t held = tiers_->memory(tier)->allocated_bytes();
  // A GPU says itself what it has.
  if (tiers_->memory(tier)->host_accessible()) {
    SLUICE_RETURN_IF_ERROR(engine::CheckGrowth(tiers_->id(tier), wanted - std::min(wanted, held)));
  }
  absl::Status taken = ResizeNow(tier, frames);
  if (taken.ok()) taken = backends_->CheckAllowed(tiers_->id(tier));
  if (taken.ok()) return taken;
  // The core knows nothing of these frames yet.
  const absl::Status given_back = ResizeNow(tier, BudgetOf(tier));
  return given_back.ok() ? taken : base::Annotate(taken, "memory was not given back");
}

void RuntimeState::AnnounceFallbacks(TierId tier) {
  for (const FallbackEvent& event : backends_->TakeFallbacks(tier)) {
    health_.NoteFallback(event);
    mailbox_->Push(engine::CallRequest{[this, event] { core_thread_->Announce(event); }});
  }
}

bool RuntimeState::UndoBudgetChange(core::TierIndex tier, core::FrameIndex before) {
  // Nothing is to be done when the core has refused; when it did its part and the system did not,
  // the frames must be there again before the core may use them.
  // What they lack then is announced even where it is forbidden: pages may lie in them already.
  if (!ResizeNow(tier, before).ok()) return false;
  AnnounceFallbacks(tiers_->id(tier));
  ChangeBudget(tier, before).IgnoreError();
  return true;
}

absl::Status RuntimeState::SetEmulatedRates(double in_bytes_per_second,
                                            double out_bytes_per_second) {
  if (backends_->emulated() == nullptr) {
    return absl::FailedPreconditionError("this runtime has no emulated device");
  }
  SLUICE_RETURN_IF_ERROR(engine::CheckRate("in_bytes_per_second", in_bytes_per_second));
  SLUICE_RETURN_IF_ERROR(engine::CheckRate("out_bytes_per_second", out_bytes_per_second));
  backends_->emulated()->SetRates(
      {in_bytes_per_second, out_bytes_per_second, options_.emulated.latency_seconds});
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<StreamState>> RuntimeState::MakeStream(
    std::optional<void*> adopted) {
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<device::Stream> stream,
                          MakeDeviceStream(tiers_->device(), adopted, options_.cpus));
  auto state = engine::MakeOwned<StreamState>(std::move(stream), tiers_->device(), stream_count_);
  base::MutexLock lock(streams_mutex_);
  std::erase_if(streams_, [](const auto& weak) { return weak.expired(); });
  streams_.push_back(state);
  return state;
}

}  // namespace sluice::internal
