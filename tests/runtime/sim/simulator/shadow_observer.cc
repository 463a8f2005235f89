#include "tests/runtime/sim/simulator/shadow_observer.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"

namespace sluice::sim {
namespace {

constexpr std::size_t kHistory = 200;
constexpr std::uint64_t kEventsPerCheck = 32;

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

}  // namespace

void ShadowObserver::OnStart(const core::Core& core) {
  core_ = &core;
  std::vector<core::FrameIndex> frames;
  for (core::TierIndex tier = 0; tier < tiers_; ++tier) frames.push_back(core.tier(tier).frames);
  frames_.emplace(frames, copies_max_, &shadow_, &verdict_);
}

// --- events -------------------------------------------------------------------------------------

void ShadowObserver::OnEvent(const core::Event& event, double seconds) {
  if (!verdict_.ok()) return;
  Remember({seconds, event});
  ++events_;
  Before(event);
}

void ShadowObserver::Before(const core::Event& event) {
  std::visit(
      Overloaded{[&](const core::CreateSegment& create) { creating_[create.segment] = create; },
                 [&](const core::FreePages& free) { shadow_.Free(free.first_page, free.pages); },
                 [&](const core::Acquire& acquire) {
                   shadow_.Request(acquire);
                   tickets_[acquire.ticket] = {acquire, {}};
                 },
                 [&](const core::Release& release) { Release(release); },
                 [&](const core::TaskDone& done) { frames_->Done(done.task); },
                 [&](const core::TaskFailed& failed) {
                   ++faults_;
                   frames_->Failed(failed.task, failed.kind);
                 },
                 [&](const core::BeginIteration&) { between_ = false; },
                 [&](const core::EndIteration&) {
                   between_ = true;
                   moved_.push_back(moving_);
                 },
                 [](const auto&) {}},
      event);
}

void ShadowObserver::Release(const core::Release& release) {
  const auto found = tickets_.find(release.ticket);
  if (found == tickets_.end()) return;
  const Ticket& ticket = found->second;
  for (std::size_t i = 0; i < ticket.frames.size(); ++i) {
    const core::PageRequest& request = ticket.acquire.requests[i];
    shadow_.Release(release.ticket, request.page);
    if (request.mode != core::PageMode::kRead) {
      frames_->Write(request.tier, ticket.frames[i], shadow_.page(request.page).stamp);
    }
    frames_->Unpin(request.page, request.tier, ticket.frames[i]);
  }
  if (release.pages.size() != ticket.frames.size()) verdict_.Fail("an op releases only a part");
  tickets_.erase(found);
}

// --- actions ------------------------------------------------------------------------------------

void ShadowObserver::OnAction(const core::Action& action, double seconds) {
  if (!verdict_.ok()) return;
  Remember({seconds, action});
  Carry(action);
}

void ShadowObserver::Carry(const core::Action& action) {
  std::visit(Overloaded{[&](const core::StartCopy& copy) {
                          frames_->Start(copy);
                          Count(copy.source, copy.target);
                        },
                        [&](const core::StartFill& fill) {
                          frames_->Start(fill);
                          const auto last = static_cast<core::TierIndex>(moving_.size());
                          const auto above = static_cast<core::TierIndex>(last - 1);
                          if (fill.kind == core::FillKind::kFile) Count(last, above);
                        },
                        [&](const core::StartMap& map) { frames_->Start(map); },
                        [&](const core::HastenCopy& order) { frames_->Hasten(order); },
                        [&](const core::DropFrame& drop) { frames_->Drop(drop); },
                        [&](const core::GrantTicket& grant) { Grant(grant); },
                        [&](const core::FailTicket& fail) { Fail(fail); },
                        [&](const core::LosePage& lose) {
                          frames_->CheckLost(lose.page);
                          shadow_.Lose(lose.page);
                          ++lost_;
                        },
                        [&](const core::SegmentCreated& created) {
                          shadow_.Create(creating_.at(created.segment), created.committed);
                        },
                        [&](const core::PagesFreed& freed) { Freed(freed); },
                        [&](const core::FenceTier&) {
                          if (faults_ == 0) verdict_.Fail("a tier is fenced though no copy failed");
                        },
                        [](const auto&) {}},
             action);
}

void ShadowObserver::Grant(const core::GrantTicket& grant) {
  const auto found = tickets_.find(grant.ticket);
  if (found == tickets_.end() || !found->second.frames.empty()) {
    return verdict_.Fail(fmt::format("ticket {} is answered twice", grant.ticket));
  }
  Ticket& ticket = found->second;
  if (grant.frames.size() != ticket.acquire.requests.size()) {
    return verdict_.Fail(fmt::format("ticket {} is granted in part", grant.ticket));
  }
  ticket.frames = grant.frames;
  ++grants_;
  for (std::size_t i = 0; i < grant.frames.size(); ++i) {
    const core::PageRequest& request = ticket.acquire.requests[i];
    frames_->Pin(request, grant.frames[i]);
    if (!verdict_.ok()) return;
    shadow_.Grant(grant.ticket, request);
    if (request.mode == core::PageMode::kRead) continue;
    frames_->Write(request.tier, grant.frames[i], shadow_.page(request.page).stamp);
  }
}

void ShadowObserver::Fail(const core::FailTicket& fail) {
  ++failures_[fail.reason];
  const auto found = tickets_.find(fail.ticket);
  if (found == tickets_.end()) return verdict_.Fail("a ticket nobody asked for fails");
  if (faults_ == 0) verdict_.Fail("an op fails though no copy did");
  for (const core::PageRequest& request : found->second.acquire.requests) {
    shadow_.Withdraw(fail.ticket, request.page);
  }
  tickets_.erase(found);
}

void ShadowObserver::Freed(const core::PagesFreed& freed) {
  frames_->ForgetPages(freed.first_page, freed.pages);
  shadow_.Remove(freed.first_page, freed.pages);
}

void ShadowObserver::Count(core::TierIndex source, core::TierIndex target) {
  ++moving_[std::min(source, target)][target < source ? 0 : 1];
}

// --- checks -------------------------------------------------------------------------------------

void ShadowObserver::OnEventDone() {
  if (!verdict_.ok()) return;
  frames_->EndBatch();
  CheckCounters();
  // Actions that follow the end of an iteration belong to it.
  if (between_) moved_.back() = moving_;
  if (events_ % kEventsPerCheck == 0) core_->CheckInvariants();
}

void ShadowObserver::CheckCounters() {
  for (core::TierIndex tier = 0; tier < frames_->tier_count(); ++tier) {
    const core::TierCounters counters = core_->tier(tier);
    if (counters.used >= frames_->used(tier) && counters.used <= counters.frames) continue;
    verdict_.Fail(fmt::format("I1: tier {} counts {} frames in use of {}, seen {}",
                              tier,
                              counters.used,
                              counters.frames,
                              frames_->used(tier)));
  }
  if (core_->tasks_in_flight() != frames_->tasks().size()) verdict_.Fail("tasks are miscounted");
}

bool ShadowObserver::MayLoseSource(const core::StartCopy& copy) const {
  const core::SimFrame& source = frames_->frame(copy.source, copy.source_frame);
  return source.pins == 0 && source.readers == 1;
}

std::uint64_t ShadowObserver::failures(core::TicketFailure reason) const {
  const auto found = failures_.find(reason);
  return found == failures_.end() ? 0 : found->second;
}

void ShadowObserver::Remember(Line line) {
  if (history_.size() < kHistory) history_.emplace_back();
  history_[lines_++ % kHistory] = std::move(line);
}

std::string ShadowObserver::Report() const {
  std::string text = verdict_.text() + "\n";
  for (std::size_t i = 0; i < history_.size(); ++i) {
    const Line& line = history_[(lines_ + i) % history_.size()];
    const bool action = std::holds_alternative<core::Action>(line.what);
    text += fmt::format("{:12.6f} {}", line.seconds, action ? "    -> " : "");
    text += std::visit([](const auto& what) { return ToString(what); }, line.what) + "\n";
  }
  return text;
}

}  // namespace sluice::sim
