#include "sluice/stream.h"

#include <utility>

#include "runtime/engine/api/stream_state.h"
#include "runtime/engine/control/ticket_state.h"
#include "sluice/lease.h"
#include "sluice/op.h"

namespace sluice {

StreamRef::StreamRef() = default;
StreamRef::StreamRef(std::shared_ptr<internal::StreamState> state) : state_(std::move(state)) {}
StreamRef::StreamRef(const StreamRef&) = default;
StreamRef& StreamRef::operator=(const StreamRef&) = default;
StreamRef::StreamRef(StreamRef&&) noexcept = default;
StreamRef& StreamRef::operator=(StreamRef&&) noexcept = default;
StreamRef::~StreamRef() = default;

absl::Status StreamRef::WaitOn(Ticket& ticket) {
  if (state_ == nullptr || ticket.state_ == nullptr) return ticket.Wait();
  return ticket.state_->WaitOn(*state_);
}

absl::Status StreamRef::ReleaseAfter(Lease&& lease) {
  auto held = std::make_shared<Lease>(std::move(lease));
  if (state_ == nullptr) return absl::OkStatus();  // nothing can be enqueued: released here
  absl::Status taken = state_->Notify([held](const absl::Status&) { held->Release(); });
  if (!taken.ok()) lease = std::move(*held);
  return taken;
}

void StreamRef::Enqueue(std::function<void()> work) {
  const auto stream = state_ == nullptr ? nullptr : state_->Get();
  if (stream != nullptr) stream->Enqueue(std::move(work));
}

void StreamRef::Synchronize() {
  const auto stream = state_ == nullptr ? nullptr : state_->Get();
  if (stream != nullptr) stream->Synchronize();
}

}  // namespace sluice
