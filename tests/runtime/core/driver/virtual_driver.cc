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
      tickets_(&frames_, &shadow_, &verdict_),
      requests_(&frames_, &shadow_, &verdict_),
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
          [&](const CreateSegment& create) { requests_.Ask(create); },
          [&](const DiscardPages& discard) { shadow_.Discard(discard.first_page, discard.pages); },
          [&](const FreePages& free) { requests_.Ask(free); },
          [&](const Acquire& acquire) { tickets_.Request(acquire); },
          [&](const Cancel& cancel) { tickets_.NoteCancel(cancel.ticket); },
          [&](const Release& release) { tickets_.EndLeases(release); },
          [&](const TaskDone& done) { frames_.Done(done.task); },
          [&](const TaskFailed& failed) {
            ++faults_;
            frames_.Failed(failed.task, failed.kind);
          },
          [&](const TaskUnderWay& task) { frames_.UnderWay(task.task); },
          [&](const ReserveFrames& reserve) { requests_.Ask(reserve); },
          [&](const ReleaseFrames& release) { requests_.End(release); },
          [&](const SetBudget& budget) { requests_.Ask(budget); },
          [&](const AbandonCopies& abandon) {
            frames_.Abandon(abandon.frames, core_->PagesOnlyIn(abandon.frames));
          },
          [](const auto&) {},
      },
      event);
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
                 [&](const GrantTicket& grant) { tickets_.Grant(grant); },
                 [&](const FailTicket& fail) { tickets_.Fail(fail, faults_); },
                 [&](const LosePage& lose) {
                   frames_.CheckLost(lose.page);
                   shadow_.Lose(lose.page);
                 },
                 [&](const FenceTier&) {
                   frames_.NoteFence();
                   if (faults_ == 0) verdict_.Fail("a tier is fenced though no task failed");
                 },
                 [&](const SegmentCreated& answer) { requests_.Answer(answer); },
                 [&](const SegmentRefused& answer) { requests_.Answer(answer); },
                 [&](const PagesFreed& answer) { requests_.Answer(answer); },
                 [&](const FramesReserved& answer) { requests_.Answer(answer); },
                 [&](const ReservationRefused& answer) { requests_.Answer(answer); },
                 [&](const BudgetSet& answer) { requests_.Answer(answer); },
                 [&](const BudgetRefused& answer) { requests_.Answer(answer); },
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

void VirtualDriver::CheckProgress() {
  if (tickets_.AnyRuns()) return;
  tickets_.CheckAnswered();
  requests_.CheckAnswered();
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
