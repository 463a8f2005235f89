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
  const core::FrameIndex budget = budgets_->Of(index);
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
  settled.wait();  // the memory is pinned from here on
  return engine::MakeOwned<ReservationState>(mailbox_, grant.reservation, std::move(spans));
}

absl::Status RuntimeState::SetBudget(TierId tier, Bytes bytes) {
  return budgets_->Set(tier, bytes);
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
