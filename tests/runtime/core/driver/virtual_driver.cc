#include "tests/runtime/core/driver/virtual_driver.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"
#include "fmt/format.h"
#include "tests/runtime/core/checked_policy.h"

namespace sluice::core {
namespace {

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

std::unique_ptr<Core> MakeCore(const DriverOptions& options) {
  auto core = Core::Create(CoreOptionsOf(options));
  SLUICE_CHECK(core.ok(), "the test's options are legal");
  return std::move(core).value();
}

bool Contains(const Acquire& acquire, PageIndex page) {
  return std::any_of(acquire.requests.begin(), acquire.requests.end(), [page](const auto& request) {
    return request.page == page && request.mode != PageMode::kOverwrite;
  });
}

}  // namespace

CoreOptions CoreOptionsOf(const DriverOptions& options) {
  CoreOptions core;
  for (const FrameIndex frames : options.frames) core.tiers.push_back({.frames = frames});
  core.tiers.front().keeps_mappings = options.keeps_mappings;
  core.policy = std::make_shared<CheckedPolicy>(
      CreatePolicy(options.policy, {.custom = options.custom_policies}).value(),
      options.policy_log);
  core.copies_in_flight_max = options.copies_in_flight_max;
  core.transit_frames = options.transit_frames;
  core.capacity_from = options.capacity_from;
  core.prefetch_ops = options.prefetch_ops;
  core.clean_share = options.clean_share;
  core.schedules = options.schedules;
  return core;
}

VirtualDriver::VirtualDriver(const DriverOptions& options)
    : options_(options),
      core_(MakeCore(options)),
      shadow_(&verdict_),
      frames_(options.frames, options.copies_in_flight_max, &shadow_, &verdict_),
      random_(options.seed) {}

// --- events -----------------------------------------------------------------------------------

std::vector<Action> VirtualDriver::Send(const Event& event) { return Send(std::vector{event}); }

std::vector<Action> VirtualDriver::Send(const std::vector<Event>& events) {
  if (!verdict_.ok()) return {};
  events_.insert(events_.end(), events.begin(), events.end());
  batch_ends_.push_back(events_.size());
  together_ += events.size() > 1 ? 1 : 0;
  for (const Event& event : events) Before(event);
  std::vector<Action> actions;
  core_->Handle(events, &actions);
  actions_.push_back(actions);
  for (const Action& action : actions) Carry(action);
  CheckBatch();
  return actions;
}

void VirtualDriver::Before(const Event& event) {
  std::visit(
      Overloaded{
          [&](const CreateSegment& create) { creating_[create.segment] = create; },
          [&](const DiscardPages& discard) { shadow_.Discard(discard.first_page, discard.pages); },
          [&](const FreePages& free) {
            shadow_.Free(free.first_page, free.pages);
            freeing_.insert({free.first_page, free.pages});
          },
          [&](const Acquire& acquire) {
            shadow_.Request(acquire);
            tickets_[acquire.ticket] = {.acquire = acquire};
            waiting_[acquire.op].insert(acquire.ticket);
            lanes_[acquire.op] = acquire.lane;
          },
          [&](const Cancel& cancel) {
            const auto found = tickets_.find(cancel.ticket);
            if (found != tickets_.end()) found->second.cancelled = true;
          },
          [&](const Release& release) { BeforeRelease(release); },
          [&](const TaskDone& done) { frames_.Done(done.task); },
          [&](const TaskFailed& failed) {
            ++faults_;
            frames_.Failed(failed.task, failed.kind);
          },
          [&](const TaskUnderWay& task) { frames_.UnderWay(task.task); },
          [&](const ReserveFrames& reserve) { reserving_[reserve.reservation] = reserve; },
          [&](const ReleaseFrames& release) {
            const FramesReserved& reserved = reserved_.at(release.reservation);
            frames_.Unreserve(reserving_.at(release.reservation).tier, reserved.frames);
            reserving_.erase(release.reservation);
            reserved_.erase(release.reservation);
          },
          [&](const SetBudget& budget) {
            // Frames to be vacated count as usable until the answer.
            const FrameIndex before = frames_.limit(budget.tier);
            budget_asked_[budget.tier] = {before, budget.frames};
            frames_.SetLimit(budget.tier, std::max(before, budget.frames));
          },
          [&](const AbandonCopies& abandon) {
            frames_.Abandon(abandon.frames, core_->PagesOnlyIn(abandon.frames));
          },
          [](const auto&) {},
      },
      event);
}

void VirtualDriver::BeforeRelease(const Release& release) {
  const auto found = tickets_.find(release.ticket);
  if (found == tickets_.end() || !found->second.granted) return;
  SimTicket& ticket = found->second;
  for (const PageIndex page : release.pages) {
    for (std::size_t i = 0; i < ticket.frames.size(); ++i) {
      const PageRequest& request = ticket.acquire.requests[i];
      if (request.page != page || ticket.leases_left[i] == 0) continue;
      const bool last = shadow_.Release(release.ticket, page);
      --ticket.leases_left[i];
      if (request.mode != PageMode::kRead) {
        frames_.Write(request.tier, ticket.frames[i], shadow_.page(page).stamp);
      }
      if (last) frames_.Unpin(page, request.tier, ticket.frames[i]);
    }
  }
  const auto& left = ticket.leases_left;
  if (std::all_of(left.begin(), left.end(), [](std::uint32_t count) { return count == 0; })) {
    holding_[ticket.acquire.op].erase(release.ticket);
  }
}

// --- actions ----------------------------------------------------------------------------------

void VirtualDriver::Carry(const Action& action) {
  if (!verdict_.ok()) return;
  const auto start = [this](const auto& task) {
    frames_.Start(task);
    Queue(task.task);
  };
  std::visit(Overloaded{
                 [&](const StartCopy& copy) { start(copy); },
                 [&](const HastenCopy& order) { frames_.Hasten(order); },
                 [&](const StartFill& fill) { start(fill); },
                 [&](const StartMap& map) { start(map); },
                 [&](const DropFrame& drop) { frames_.Drop(drop); },
                 [&](const GrantTicket& grant) { Grant(grant); },
                 [&](const FailTicket& fail) { FailOne(fail); },
                 [&](const LosePage& lose) {
                   frames_.CheckLost(lose.page);
                   shadow_.Lose(lose.page);
                 },
                 [&](const FenceTier&) {
                   frames_.NoteFence();
                   if (faults_ == 0) verdict_.Fail("a tier is fenced though no task failed");
                 },
                 [&](const SegmentCreated& created) { Created(created); },
                 [&](const SegmentRefused& refused) { creating_.erase(refused.segment); },
                 [&](const PagesFreed& freed) { Freed(freed); },
                 [&](const FramesReserved& reserved) { AnswerReservation(reserved); },
                 [&](const ReservationRefused& refused) { reserving_.erase(refused.reservation); },
                 [&](const BudgetSet& set) { AnswerBudget(set.tier, set.frames); },
                 [&](const BudgetRefused& refused) {
                   frames_.SetLimit(refused.tier, budget_asked_[refused.tier].first);
                   budget_asked_.erase(refused.tier);
                 },
             },
             action);
  const bool order =
      std::holds_alternative<StartCopy>(action) || std::holds_alternative<StartFill>(action) ||
      std::holds_alternative<StartMap>(action) || std::holds_alternative<DropFrame>(action) ||
      std::holds_alternative<HastenCopy>(action);
  if (!order) answers_.push_back(action);
}

void VirtualDriver::Queue(TaskNumber task) {
  const std::uint64_t latency = 1 + random_() % options_.latency_max;
  queue_.push({now_ + latency, order_++, {.is_timer = false, .id = task}});
  const SimTask& started = frames_.tasks().at(task);
  const bool maps_only = std::holds_alternative<StartMap>(started.action);
  if (!options_.under_way || started.target > 0 || maps_only || started.garbage) return;
  queue_.push({now_ + random_() % latency, order_++, {.under_way = true, .id = task}});
}

void VirtualDriver::Grant(const GrantTicket& grant) {
  const auto found = tickets_.find(grant.ticket);
  if (found == tickets_.end() || !found->second.open()) {
    return verdict_.Fail(fmt::format("ticket {} is answered twice", grant.ticket));
  }
  SimTicket& ticket = found->second;
  const auto& requests = ticket.acquire.requests;
  if (grant.frames.size() != requests.size()) {
    return verdict_.Fail(fmt::format("ticket {} is granted in part", grant.ticket));
  }
  ticket.granted = true;
  ticket.frames = grant.frames;
  ++grants_;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    frames_.Pin(requests[i], grant.frames[i]);
    if (!verdict_.ok()) return;
    shadow_.Grant(grant.ticket, requests[i]);
    ticket.leases_left.push_back(requests[i].leases);
    if (requests[i].mode == PageMode::kRead) continue;
    frames_.Write(requests[i].tier, grant.frames[i], shadow_.page(requests[i].page).stamp);
  }
  waiting_[ticket.acquire.op].erase(grant.ticket);
  if (!requests.empty()) holding_[ticket.acquire.op].insert(grant.ticket);
}

void VirtualDriver::FailOne(const FailTicket& fail) {
  const auto found = tickets_.find(fail.ticket);
  if (found == tickets_.end() || !found->second.open()) {
    return verdict_.Fail(fmt::format("ticket {} is answered twice", fail.ticket));
  }
  SimTicket& ticket = found->second;
  CheckReason(fail, ticket);
  ticket.failed = true;
  ++failures_[fail.reason];
  waiting_[ticket.acquire.op].erase(fail.ticket);
  for (const PageRequest& request : ticket.acquire.requests) {
    shadow_.Withdraw(fail.ticket, request.page);
  }
}

void VirtualDriver::CheckReason(const FailTicket& fail, const SimTicket& ticket) {
  switch (fail.reason) {
    case TicketFailure::kTooLarge:
      return CheckTooLarge(fail, ticket);
    case TicketFailure::kWouldDeadlock:
      return CheckDeadlock(fail);
    case TicketFailure::kPageLost:
      if (!Contains(ticket.acquire, fail.page) || !shadow_.page(fail.page).lost) {
        verdict_.Fail(fmt::format("ticket {} fails by page {}, not lost", fail.ticket, fail.page));
      }
      return;
    case TicketFailure::kTierFull:
      if (faults_ == 0) verdict_.Fail("a tier is called full though no task failed");
      return;
    case TicketFailure::kCancelled:
      if (!ticket.cancelled) verdict_.Fail("a ticket is called cancelled that was not");
      return;
  }
}

void VirtualDriver::CheckTooLarge(const FailTicket& fail, const SimTicket& ticket) {
  std::set<PageIndex> pages;
  for (const PageRequest& request : ticket.acquire.requests) {
    if (request.tier == fail.tier) pages.insert(request.page);
  }
  if (fail.pages <= fail.limit || fail.pages != pages.size()) {
    verdict_.Fail(fmt::format("ticket {} is called too large in tier {}: {} of {}, really {}",
                              fail.ticket,
                              fail.tier,
                              fail.pages,
                              fail.limit,
                              pages.size()));
  }
}

void VirtualDriver::CheckDeadlock(const FailTicket& fail) {
  for (const auto& [op, held] : holding_) {
    if (held.empty() || Waiting(op)) continue;
    verdict_.Fail(fmt::format(
        "ticket {} fails by deadlock though op {} holds and does not wait", fail.ticket, op));
  }
}

void VirtualDriver::Created(const SegmentCreated& created) {
  const auto found = creating_.find(created.segment);
  if (found == creating_.end()) return verdict_.Fail("a segment nobody asked for");
  shadow_.Create(found->second, created.committed);
  creating_.erase(found);
}

void VirtualDriver::Freed(const PagesFreed& freed) {
  const auto found = freeing_.find({freed.first_page, freed.pages});
  if (found == freeing_.end()) return verdict_.Fail("freed what nobody asked to free");
  freeing_.erase(found);
  frames_.ForgetPages(freed.first_page, freed.pages);
  shadow_.Remove(freed.first_page, freed.pages);
}

void VirtualDriver::AnswerReservation(const FramesReserved& reserved) {
  const auto found = reserving_.find(reserved.reservation);
  if (found == reserving_.end() || found->second.frames != reserved.frames.size()) {
    return verdict_.Fail(fmt::format("a wrong answer to reservation {}", reserved.reservation));
  }
  frames_.Reserve(found->second.tier, reserved.frames);
  reserved_[reserved.reservation] = reserved;
}

void VirtualDriver::AnswerBudget(TierIndex tier, FrameIndex frames) {
  const auto found = budget_asked_.find(tier);
  if (found == budget_asked_.end() || frames != found->second.second) {
    return verdict_.Fail(fmt::format("a wrong answer to the budget of tier {}", tier));
  }
  budget_asked_.erase(found);
  frames_.SetLimit(tier, frames);
  frames_.CheckVacated(tier);
}

// --- time -------------------------------------------------------------------------------------

void VirtualDriver::SetTimer(std::uint64_t delay, std::uint64_t id) {
  queue_.push({now_ + delay, order_++, {.is_timer = true, .id = id}});
}

std::optional<Moment> VirtualDriver::Step() {
  while (verdict_.ok() && !queue_.empty()) {
    const Entry entry = queue_.top();
    queue_.pop();
    now_ = std::max(now_, entry.time);
    if (entry.moment.is_timer) return entry.moment;
    if (entry.moment.under_way) {
      Send(TaskUnderWay{entry.moment.id});
      return entry.moment;
    }
    std::vector<Event> events;
    const auto tell = [&](TaskNumber task) {
      if (const auto end = EndOf(task)) events.push_back(*end);
    };
    tell(entry.moment.id);
    if (events.empty()) continue;
    while (const auto task = TakeTask(entry.time + options_.together)) tell(*task);
    Send(events);
    return entry.moment;
  }
  return std::nullopt;
}

std::optional<Event> VirtualDriver::EndOf(TaskNumber task) const {
  const auto found = frames_.tasks().find(task);
  if (found == frames_.tasks().end()) return std::nullopt;
  const auto kind = fault_ ? fault_(task, found->second) : std::nullopt;
  return kind ? Event(TaskFailed{task, *kind}) : Event(TaskDone{task});
}

std::optional<TaskNumber> VirtualDriver::TakeTask(std::uint64_t latest) {
  if (options_.together == 0 || queue_.empty() || queue_.top().moment.is_timer ||
      queue_.top().moment.under_way || queue_.top().time > latest) {
    return std::nullopt;
  }
  const TaskNumber task = queue_.top().moment.id;
  now_ = std::max(now_, queue_.top().time);
  queue_.pop();
  return task;
}

std::vector<Action> VirtualDriver::Drain() {
  std::vector<Action> all;
  for (int i = 0; i < 100000 && verdict_.ok() && !frames_.tasks().empty(); ++i) {
    const std::size_t before = actions_.size();
    const auto moment = Step();
    if (!moment) break;
    if (moment->is_timer) SetTimer(options_.latency_max, moment->id);
    for (std::size_t k = before; k < actions_.size(); ++k) {
      all.insert(all.end(), actions_[k].begin(), actions_[k].end());
    }
  }
  if (!frames_.tasks().empty()) verdict_.Fail("tasks follow each other without an end");
  return all;
}

// --- checks -----------------------------------------------------------------------------------

bool VirtualDriver::Waiting(OpNumber op) const {
  const LaneIndex lane = lanes_.at(op);
  return std::any_of(waiting_.begin(), waiting_.upper_bound(op), [&](const auto& other) {
    return !other.second.empty() && (other.first == op || lanes_.at(other.first) == lane);
  });
}

bool VirtualDriver::Holds(OpNumber op) const {
  const auto found = holding_.find(op);
  return found != holding_.end() && !found->second.empty();
}

std::set<PageIndex> VirtualDriver::PagesHeld(OpNumber op, TierIndex tier) const {
  std::set<PageIndex> pages;
  const auto found = holding_.find(op);
  if (found == holding_.end()) return pages;
  for (const TicketNumber number : found->second) {
    const SimTicket& ticket = tickets_.at(number);
    for (std::size_t i = 0; i < ticket.leases_left.size(); ++i) {
      const PageRequest& request = ticket.acquire.requests[i];
      if (request.tier == tier && ticket.leases_left[i] > 0) pages.insert(request.page);
    }
  }
  return pages;
}

void VirtualDriver::CheckProgress() {
  for (const auto& [op, held] : holding_) {
    if (Holds(op) && !Waiting(op)) return;  // the op will go on and release
  }
  for (const auto& [op, tickets] : waiting_) {
    if (tickets.empty()) continue;
    verdict_.Fail(fmt::format("ticket {} of op {} hangs", *tickets.begin(), op));
  }
  if (!freeing_.empty()) verdict_.Fail("a FreePages hangs");
  if (reserving_.size() != reserved_.size()) verdict_.Fail("a reservation hangs");
  if (!budget_asked_.empty()) verdict_.Fail("a SetBudget hangs");
  if (!creating_.empty()) verdict_.Fail("a CreateSegment hangs");
}

void VirtualDriver::CheckBatch() {
  if (!verdict_.ok()) return;
  frames_.EndBatch();
  CheckCounters();
  if (batch_ends_.size() % options_.events_per_check == 0) core_->CheckInvariants();
}

void VirtualDriver::CheckCounters() {
  for (TierIndex tier = 0; tier < frames_.tier_count(); ++tier) {
    const TierCounters counters = core_->tier(tier);
    if (counters.used >= frames_.used(tier) && counters.used <= options_.frames[tier]) continue;
    verdict_.Fail(fmt::format("I1: tier {} counts {} frames in use of {}, seen {}",
                              tier,
                              counters.used,
                              counters.frames,
                              frames_.used(tier)));
  }
  if (core_->tasks_in_flight() != frames_.tasks().size()) {
    verdict_.Fail(fmt::format("{} tasks in flight, the core counts {}",
                              frames_.tasks().size(),
                              core_->tasks_in_flight()));
  }
}

void VirtualDriver::CheckReplay() {
  const std::unique_ptr<Core> core = MakeCore(options_);
  std::size_t begin = 0;
  for (std::size_t i = 0; i < batch_ends_.size(); ++i) {
    std::vector<Action> actions;
    core->Handle(std::span(events_).subspan(begin, batch_ends_[i] - begin), &actions);
    begin = batch_ends_[i];
    if (actions == actions_[i]) continue;
    return verdict_.Fail(fmt::format("I7: event {} gives other actions again", begin - 1));
  }
}

std::uint64_t VirtualDriver::failure_count(TicketFailure reason) const {
  const auto found = failures_.find(reason);
  return found == failures_.end() ? 0 : found->second;
}

std::string VirtualDriver::EventText(std::size_t event) const {
  std::string text = fmt::format("{:6} {}\n", event, ToString(events_[event]));
  if (const auto* hint = std::get_if<PrefetchPages>(&events_[event])) {
    for (const PageRequest& request : hint->requests) {
      text += fmt::format(
          "         hint {}@{}/{}\n", request.page, request.tier, static_cast<int>(request.mode));
    }
  }
  return text;
}

std::string VirtualDriver::Report() const {
  constexpr std::size_t kEventsShown = 60;
  std::string text =
      fmt::format("{} (seed {}, event {})\n", verdict_.text(), options_.seed, events_.size());
  const std::size_t first = events_.size() > kEventsShown ? events_.size() - kEventsShown : 0;
  std::size_t batch = 0;
  for (std::size_t i = 0; i < events_.size(); ++i) {
    if (i >= first) text += EventText(i);
    if (i + 1 != batch_ends_[batch]) continue;
    // The event that stopped the program has no actions.
    if (i >= first && batch < actions_.size()) {
      for (const Action& action : actions_[batch]) text += "         -> " + ToString(action) + "\n";
    }
    ++batch;
  }
  return text;
}

}  // namespace sluice::core
