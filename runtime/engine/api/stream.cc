#include "sluice/stream.h"

#include <utility>

#include "runtime/engine/api/stream_state.h"
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

absl::Status StreamRef::WaitOn(Ticket& ticket) { return ticket.Wait(); }

void StreamRef::ReleaseAfter(Lease lease) {
  const auto stream = state_ == nullptr ? nullptr : state_->Get();
  if (stream == nullptr) return;  // nothing can be enqueued: released here
  stream->Notify([held = std::move(lease)](absl::Status) mutable { held.Release(); });
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
