#include "tests/faults/trace/trace_user.h"

#include <algorithm>
#include <string>
#include <utility>

#include "fmt/format.h"

namespace sluice::faults {

using core::PageMode;
using core::TicketFailure;

TraceUser::TraceUser(const Trace& trace,
                     core::TierIndex last_tier,
                     const SlotLedger& ledger,
                     core::Verdict* verdict)
    : last_tier_(last_tier), ledger_(ledger), verdict_(*verdict), model_(trace) {}

void TraceUser::Begin(Pager* pager, Executor* executor) {
  pager_ = pager;
  executor_ = executor;
  for (const ModelTensor& tensor : model_.tensors()) Create(tensor);
}

bool TraceUser::MayPerform(const TraceStep& step) const {
  const std::vector<ModelTensor>& tensors = model_.tensors();
  const bool both = step.kind == TraceKind::kCompute;
  return open_.size() < kLanes && !tensors[step.tensor].busy && !(both && tensors[step.other].busy);
}

bool TraceUser::idle() const {
  const auto busy = [](const ModelTensor& tensor) { return tensor.busy; };
  const std::vector<ModelTensor>& tensors = model_.tensors();
  return open_.empty() && std::none_of(tensors.begin(), tensors.end(), busy);
}

void TraceUser::Perform(const TraceStep& step) {
  ModelTensor& tensor = model_.tensors()[step.tensor];
  std::vector<Access> accesses;
  switch (step.kind) {
    case TraceKind::kRead:
      AddAccess(tensor, PageMode::kRead, &accesses);
      return Acquire(std::move(accesses));
    case TraceKind::kOverwrite:
      AddAccess(tensor, PageMode::kOverwrite, &accesses);
      return Acquire(std::move(accesses));
    case TraceKind::kUpdate:
      AddAccess(tensor, PageMode::kWrite, &accesses);
      return Acquire(std::move(accesses));
    case TraceKind::kCompute:
      AddAccess(tensor, PageMode::kRead, &accesses);
      AddAccess(model_.tensors()[step.other], PageMode::kOverwrite, &accesses);
      return Acquire(std::move(accesses));
    case TraceKind::kDiscard:
      return Discard(tensor);
    case TraceKind::kRecreate:
      tensor.busy = true;
      for (ModelPage& page : tensor.pages) page = {};
      return pager_->Send(
          core::FreePages{tensor.first_page, static_cast<std::uint32_t>(tensor.pages.size())});
    case TraceKind::kPrefetch:
      return Prefetch(tensor);
  }
}

/// An update leaves every other page as it is, but no page that is content consists of zeros.
void TraceUser::AddAccess(ModelTensor& tensor, PageMode mode, std::vector<Access>* accesses) {
  tensor.busy = true;
  for (PageIndex i = 0; i < tensor.pages.size(); ++i) {
    const bool updates = mode == PageMode::kWrite && (i % 2 == 0 || tensor.pages[i].stamp == 0);
    const bool changes = mode == PageMode::kOverwrite || updates;
    accesses->push_back({tensor.first_page + i, mode, changes});
  }
}

void TraceUser::Acquire(std::vector<Access> accesses) {
  const auto lane = static_cast<std::size_t>(
      std::find(lane_busy_.begin(), lane_busy_.end(), false) - lane_busy_.begin());
  lane_busy_[lane] = true;
  core::Acquire acquire{.ticket = next_ticket_++, .lane = static_cast<core::LaneIndex>(lane)};
  acquire.op = acquire.ticket;
  for (const Access& access : accesses) {
    acquire.requests.push_back({.page = access.page, .tier = 0, .mode = access.mode});
  }
  open_[acquire.ticket] = {lane, std::move(accesses)};
  pager_->Send(std::move(acquire));
}

void TraceUser::Discard(ModelTensor& tensor) {
  for (ModelPage& page : tensor.pages) page = {};
  pager_->Send(
      core::DiscardPages{tensor.first_page, static_cast<std::uint32_t>(tensor.pages.size())});
}

void TraceUser::Free(ModelTensor& tensor) {
  tensor.busy = true;
  for (ModelPage& page : tensor.pages) page = {};
  pager_->Send(core::FreePages{tensor.first_page, static_cast<std::uint32_t>(tensor.pages.size())});
}

void TraceUser::Create(const ModelTensor& tensor) {
  pager_->Send(core::CreateSegment{.segment = tensor.segment,
                                   .first_page = tensor.first_page,
                                   .pages = static_cast<std::uint32_t>(tensor.pages.size()),
                                   .lowest = last_tier_,
                                   .reproducible = tensor.reproducible});
}

void TraceUser::Prefetch(const ModelTensor& tensor) {
  core::PrefetchPages prefetch;
  for (PageIndex i = 0; i < tensor.pages.size(); ++i) {
    prefetch.requests.push_back({.page = tensor.first_page + i, .tier = 0});
  }
  pager_->Send(std::move(prefetch));
}

// --- leases -----------------------------------------------------------------------------------

void TraceUser::OnGranted(const core::GrantTicket& grant) {
  OpenTicket& ticket = open_.at(grant.ticket);
  for (std::size_t i = 0; i < ticket.accesses.size(); ++i) {
    ticket.accesses[i].frame = grant.frames[i];
    BeginLease(ticket.accesses[i]);
    outcome_.fingerprint = outcome_.fingerprint * 31 + grant.ticket * 7 + grant.frames[i];
  }
  executor_->Post([this, number = grant.ticket] { Release(number); });
}

void TraceUser::BeginLease(const Access& access) {
  pager_->CheckLease(0, access.frame, access.mode);
  if (access.mode != PageMode::kOverwrite) CheckBytes(access);
  if (!access.changes) return;
  // Half-written content, which nobody may ever read.
  const std::span<std::byte> frame = pager_->Frame(0, access.frame);
  std::fill(frame.begin(), frame.end(), std::byte{0xcc});
}

void TraceUser::EndLease(const Access& access) {
  if (!access.changes) return CheckBytes(access);
  ModelPage& page = model_.Page(access.page);
  page = {.stamp = model_.NewStamp(), .lost = false, .older = page.stamp};
  FillPage(page.stamp, pager_->Frame(0, access.frame));
}

void TraceUser::CheckBytes(const Access& access) {
  const ModelPage& page = model_.Page(access.page);
  const std::string& name = model_.Owner(access.page).name();
  if (page.lost) verdict_.Fail("tensor " + name + " is granted though a page of it is lost");
  if (PageHolds(page.stamp, pager_->Frame(0, access.frame))) return;
  verdict_.Fail(fmt::format("tensor {} has wrong bytes in page {}", name, access.page));
}

void TraceUser::Release(core::TicketNumber number) {
  if (stopped_) return;
  core::Release release{.ticket = number, .pages = {}};
  for (const Access& access : open_.at(number).accesses) {
    EndLease(access);
    release.pages.push_back(access.page);
  }
  Close(number);
  pager_->Send(std::move(release));
}

void TraceUser::Close(core::TicketNumber number) {
  const auto found = open_.find(number);
  lane_busy_[found->second.lane] = false;
  for (const Access& access : found->second.accesses) {
    model_.Owner(access.page).busy = false;
  }
  open_.erase(found);
}

// --- what goes wrong --------------------------------------------------------------------------

void TraceUser::OnFailed(const core::FailTicket& fail) {
  ++outcome_.op_failures[fail.reason];
  CheckFailure(fail, open_.at(fail.ticket));
  Close(fail.ticket);
}

/// A failure has its cause, and names it.
void TraceUser::CheckFailure(const core::FailTicket& fail, const OpenTicket& ticket) {
  if (fail.reason == TicketFailure::kTierFull) {
    if (outcome_.store_failures.empty()) verdict_.Fail("an op fails though no I/O has failed");
    return;
  }
  const auto names = [&](const Access& access) {
    return access.page == fail.page && access.mode != PageMode::kOverwrite;
  };
  const bool named = std::any_of(ticket.accesses.begin(), ticket.accesses.end(), names);
  if (fail.reason == TicketFailure::kPageLost && named && model_.Page(fail.page).lost) return;
  verdict_.Fail("an op fails without a cause: " + core::ToString(core::Action(fail)));
}

void TraceUser::OnFreed(const core::PagesFreed& freed) {
  ModelTensor& tensor = model_.Owner(freed.first_page);
  tensor.segment = model_.NewSegment();
  tensor.busy = false;
  Create(tensor);
}

void TraceUser::OnLost(PageIndex page) {
  ++outcome_.pages_lost;
  const ModelTensor& tensor = model_.Owner(page);
  if (tensor.reproducible) verdict_.Fail("tensor " + tensor.name() + " is lost, not reproduced");
  if (outcome_.store_failures.empty()) verdict_.Fail("a page is lost though no I/O has failed");
  if (outcome_.fenced > 0 && !named_.contains(page)) {
    verdict_.Fail(fmt::format("page {} went with a drive that failed, and was not named", page));
  }
  model_.Page(page).lost = true;
}

void TraceUser::Reproduce(PageIndex page, std::span<std::byte> frame) {
  ++outcome_.pages_reproduced;
  FillPage(model_.Page(page).stamp, frame);
}

void TraceUser::OnStoreFailure(const StoreFailure& failure) {
  ++outcome_.store_failures[failure.code];
  if (failure.code != absl::StatusCode::kDataLoss || ledger_.Harmed(failure.identity)) return;
  verdict_.Fail(fmt::format("page {} was not harmed and is lost to the store", failure.page));
}

void TraceUser::OnFenced(const std::vector<PageIndex>& only) {
  ++outcome_.fenced;
  named_.insert(only.begin(), only.end());
}

/// Lost bytes are reported at once, unless they are reproduced or were given up before.
void TraceUser::AfterStoreFailure(const StoreFailure& failure) {
  const ModelPage& page = model_.Page(failure.page);
  const ModelTensor& tensor = model_.Owner(failure.page);
  const bool gone = page.stamp == 0 || tensor.segment != failure.identity.segment;
  if (failure.code != absl::StatusCode::kDataLoss || tensor.reproducible || gone) return;
  if (!page.lost) verdict_.Fail("the loss of a page of tensor " + tensor.name() + " is kept quiet");
}

}  // namespace sluice::faults
