#include "tests/faults/trace/pager.h"

#include <cstring>
#include <string>
#include <utility>

#include "base/check.h"
#include "fmt/format.h"

namespace sluice::faults {
namespace {

/// Events between runs of Core::CheckInvariants.
constexpr std::uint64_t kEventsPerCheck = 64;

std::unique_ptr<core::Core> MakeCore(const PagerOptions& options) {
  core::CoreOptions core;
  for (const core::FrameIndex frames : options.frames) core.tiers.push_back({frames});
  core.policy = core::CreatePolicy("lru").value();
  core.copies_in_flight_max = options.copies_in_flight_max;
  auto made = core::Core::Create(core);
  SLUICE_CHECK(made.ok(), "the test's options are legal");
  return *std::move(made);
}

std::byte* Allocate(std::size_t bytes) {
  return static_cast<std::byte*>(std::aligned_alloc(4096, bytes));
}

/// Kinds as runtime/engine/mover/page_copies.cc has them: only a read with such an error loses its
/// source.
core::FailureKind KindOf(bool read, const absl::Status& status) {
  if (read) {
    const bool lost = absl::IsDataLoss(status) || absl::IsNotFound(status);
    return lost ? core::FailureKind::kSourceLost : core::FailureKind::kSourceRefused;
  }
  return absl::IsResourceExhausted(status) ? core::FailureKind::kTargetFull
                                           : core::FailureKind::kTargetFailed;
}

}  // namespace

Pager::Pager(const PagerOptions& options, const Parts& parts)
    : options_(options),
      parts_(parts),
      core_(MakeCore(options)),
      scratch_(Allocate(options.page_bytes)) {
  for (std::size_t t = 0; t + 1 < options.frames.size(); ++t) {
    MemoryTier tier;
    tier.bytes.reset(Allocate(options.frames[t] * options.page_bytes));
    tier.uses.resize(options.frames[t]);
    memory_.push_back(std::move(tier));
  }
}

void Pager::Send(core::Event event) {
  events_.push_back(std::move(event));
  if (std::exchange(handling_, true)) return;
  while (!events_.empty()) {
    const core::Event next = std::move(events_.front());
    events_.pop_front();
    if (!stopped_) Handle(next);
  }
  handling_ = false;
}

void Pager::Handle(const core::Event& event) {
  if (const auto* create = std::get_if<core::CreateSegment>(&event)) {
    segments_[create->segment] = {create->first_page, create->reproducible};
  }
  std::vector<core::Action> actions;
  core_->Handle(event, &actions);
  for (const core::Action& action : actions) {
    std::visit([this](const auto& one) { Perform(one); }, action);
  }
  if (++handled_ % kEventsPerCheck == 0) core_->CheckInvariants();
}

/// Steps as in runtime/engine/control/core_thread.cc.
void Pager::Fence(const io::FencedDrive& drive) {
  if (stopped_) return;
  parts_.user->OnFenced(core_->PagesOnlyIn(drive.slots));
  Send(core::AbandonCopies{drive.slots});
}

std::span<std::byte> Pager::Frame(core::TierIndex tier, core::FrameIndex frame) {
  return {memory_[tier].bytes.get() + frame * options_.page_bytes, options_.page_bytes};
}

std::span<std::byte> Pager::Frames(core::TierIndex tier) {
  return {memory_[tier].bytes.get(), options_.frames[tier] * options_.page_bytes};
}

// --- copies -----------------------------------------------------------------------------------

void Pager::Perform(const core::StartCopy& copy) {
  Use(copy);
  if (IsStore(copy.source)) return StartRead(copy);
  if (IsStore(copy.target)) return StartWrite(copy);
  StartMemoryCopy(copy);
}

void Pager::Perform(const core::HastenCopy& hasten) {
  if (IsStore(hasten.target)) parts_.store->Hasten(hasten.target_frame);
}

io::PageIdentity Pager::IdentityOf(const core::StartCopy& copy) const {
  const PageIndex within = copy.page - segments_.at(copy.segment).first_page;
  return {copy.segment, within, copy.generation};
}

void Pager::StartRead(const core::StartCopy& copy) {
  ++started_;
  parts_.ledger->BeginRead(copy.source_frame);
  parts_.store->Read(
      copy.source_frame, IdentityOf(copy), Frame(copy.target, copy.target_frame), Done(copy));
}

void Pager::StartWrite(const core::StartCopy& copy) {
  ++started_;
  const io::PageIdentity identity = IdentityOf(copy);
  parts_.ledger->BeginWrite(
      copy.target_frame, identity, copy.page, segments_.at(copy.segment).reproducible);
  parts_.store->Write(
      copy.target_frame, identity, Frame(copy.source, copy.source_frame), Done(copy));
  if (copy.urgent) parts_.store->Hasten(copy.target_frame);
}

void Pager::StartMemoryCopy(const core::StartCopy& copy) {
  parts_.executor->Post([this, copy] {
    const auto source = Frame(copy.source, copy.source_frame);
    std::memcpy(Frame(copy.target, copy.target_frame).data(), source.data(), source.size());
    Unuse(copy);
    Send(core::TaskDone{copy.task});
  });
}

/// The callback runs on a thread of the store. All else follows on the thread of the executor.
io::DoneFn Pager::Done(const core::StartCopy& copy) {
  return [this, copy](absl::Status status) {
    ++done_calls_;
    parts_.executor->Post([this, copy, status = std::move(status)] { Finish(copy, status); });
  };
}

void Pager::Finish(const core::StartCopy& copy, const absl::Status& status) {
  const bool read = IsStore(copy.source);
  if (stopped_) {
    ++finished_;
    return;
  }
  if (!status.ok() && !read) return ProbeFailedWrite(copy, status.code());
  ++finished_;
  parts_.ledger->End(read ? copy.source_frame : copy.target_frame);
  if (!status.ok()) return Fail(copy, status);
  Unuse(copy);
  Send(core::TaskDone{copy.task});
}

void Pager::Fail(const core::StartCopy& copy, const absl::Status& status) {
  const bool read = IsStore(copy.source);
  const StoreFailure failure{read, IdentityOf(copy), copy.page, status.code()};
  Unuse(copy);
  parts_.user->OnStoreFailure(failure);
  Send(core::TaskFailed{copy.task, KindOf(read, status)});
  parts_.user->AfterStoreFailure(failure);
}

/// A slot whose write failed must hold nothing that can be read as the page, however much has
/// reached the disk.
void Pager::ProbeFailedWrite(const core::StartCopy& copy, absl::StatusCode code) {
  const std::span<std::byte> scratch(scratch_.get(), options_.page_bytes);
  const auto done = [this, copy, code](absl::Status status) {
    parts_.executor->Post([this, copy, code, found = status.code()] {
      ++finished_;
      if (stopped_) return;
      if (found != absl::StatusCode::kNotFound) {
        parts_.verdict->Fail(fmt::format("slot {} gives {} after a write of it failed",
                                         copy.target_frame,
                                         absl::StatusCodeToString(found)));
      }
      parts_.ledger->Forget(copy.target_frame);
      parts_.ledger->End(copy.target_frame);
      Fail(copy, absl::Status(code, ""));
    });
  };
  parts_.store->Read(copy.target_frame, IdentityOf(copy), scratch, done);
}

// --- fills and drops --------------------------------------------------------------------------

void Pager::Perform(const core::StartFill& fill) {
  if (fill.kind == core::FillKind::kUndefined) return Send(core::TaskDone{fill.task});
  UseToWrite(fill.tier, fill.frame);
  parts_.executor->Post([this, fill] {
    const std::span<std::byte> frame = Frame(fill.tier, fill.frame);
    std::memset(frame.data(), 0, frame.size());
    if (fill.kind == core::FillKind::kReproduce) parts_.user->Reproduce(fill.page, frame);
    memory_[fill.tier].uses[fill.frame].writer = false;
    Send(core::TaskDone{fill.task});
  });
}

void Pager::Perform(const core::DropFrame& drop) {
  if (!IsStore(drop.tier)) return;
  parts_.ledger->Forget(drop.frame);
  parts_.store->Forget(drop.frame);
}

// --- who uses which frame ---------------------------------------------------------------------

void Pager::Use(const core::StartCopy& copy) {
  if (!IsStore(copy.source)) UseToRead(copy.source, copy.source_frame);
  if (!IsStore(copy.target)) UseToWrite(copy.target, copy.target_frame);
}

void Pager::Unuse(const core::StartCopy& copy) {
  if (!IsStore(copy.source)) --memory_[copy.source].uses[copy.source_frame].readers;
  if (!IsStore(copy.target)) memory_[copy.target].uses[copy.target_frame].writer = false;
}

void Pager::UseToWrite(core::TierIndex tier, core::FrameIndex frame) {
  FrameUse& use = memory_[tier].uses[frame];
  if (use.writer || use.readers > 0) {
    parts_.verdict->Fail(fmt::format("frame {} of tier {} is reused too early", frame, tier));
  }
  use.writer = true;
}

void Pager::UseToRead(core::TierIndex tier, core::FrameIndex frame) {
  FrameUse& use = memory_[tier].uses[frame];
  if (use.writer) {
    parts_.verdict->Fail(fmt::format("frame {} of tier {} is read too early", frame, tier));
  }
  ++use.readers;
}

void Pager::CheckLease(core::TierIndex tier, core::FrameIndex frame, core::PageMode mode) {
  const FrameUse& use = memory_[tier].uses[frame];
  const bool writes = mode != core::PageMode::kRead;
  if (use.writer || (writes && use.readers > 0)) {
    parts_.verdict->Fail(fmt::format("frame {} of tier {} is leased too early", frame, tier));
  }
}

}  // namespace sluice::faults
