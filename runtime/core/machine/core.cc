#include "runtime/core/core.h"

#include <span>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/strings.h"
#include "runtime/core/machine/machine.h"

namespace sluice::core {

/// Hands each event to the part of the machine that handles it.
class Core::Impl {
 public:
  explicit Impl(const CoreOptions& options) : machine_(options) {}

  void Handle(std::span<const Event> events, std::vector<Action>* actions);
  const CoreCounters& counters();
  TierCounters CountersOf(TierIndex tier) const;
  const ResidencyMachine& machine() const { return machine_; }

 private:
  void On(const CreateSegment& event) { machine_.capacity.On(event); }
  void On(const DiscardPages& event) { machine_.discards.On(event); }
  void On(const FreePages& event) { machine_.discards.On(event); }
  void On(const BeginIteration& event);
  void On(const EndIteration& event);
  void On(const Acquire& event) { machine_.tickets.On(event); }
  void On(const PrefetchPages& event) { machine_.lookahead.On(event); }
  void On(const Cancel& event) { machine_.tickets.On(event); }
  void On(const Release& event) { machine_.tickets.On(event); }
  void On(const TaskDone& event) { machine_.task_ends.On(event); }
  void On(const TaskFailed& event) { machine_.task_ends.On(event); }
  void On(const TaskUnderWay& event) { machine_.task_ends.On(event); }
  void On(const GrantUnderWay& event) { machine_.tickets.On(event); }
  void On(const ReserveFrames& event) { machine_.budgets.On(event); }
  void On(const ReleaseFrames& event) { machine_.budgets.On(event); }
  void On(const SetBudget& event) { machine_.budgets.On(event); }
  void On(const AbandonCopies& event) { machine_.copies.On(event); }
  void On(const AdoptPlan& event) { machine_.plan_follower.On(event); }

  ResidencyMachine machine_;
};

ResidencyMachine::ResidencyMachine(const CoreOptions& core_options)
    : options(core_options),
      online(core_options.policy->online()),
      tiers(core_options.tiers.begin(), core_options.tiers.end()),
      links(core_options.tiers.size() - 1),
      book(core_options.schedules),
      goals(*this, core_options.tiers.size()) {
  for (TierIndex t = 0; t < last_tier(); ++t) facts.TellFrames(t);
}

void Core::Impl::Handle(std::span<const Event> events, std::vector<Action>* actions) {
  machine_.actions = actions;
  for (const Event& event : events) {
    const bool of_task = std::holds_alternative<TaskDone>(event) ||
                         std::holds_alternative<TaskFailed>(event) ||
                         std::holds_alternative<TaskUnderWay>(event);
    if (!of_task) machine_.tasks_since_progress = 0;  // somebody outside goes on
    std::visit([this](const auto& e) { On(e); }, event);
  }
  machine_.pump.Run();
  machine_.actions = nullptr;
}

void Core::Impl::On(const BeginIteration& event) {
  machine_.fixed_pages.BeginIteration(machine_.book.running());
  const bool moved = machine_.book.Begin(event.key);
  machine_.options.policy->OnStep(machine_.book.now());
  machine_.plan_follower.DropPlans();
  if (moved) machine_.lookahead.RefreshNextUses();
  machine_.plan_follower.FollowPlan(event.key, moved);
}

void Core::Impl::On(const EndIteration&) {
  machine_.fixed_pages.EndIteration();
  machine_.book.End();
  machine_.plan_follower.DropPlans();
}

const CoreCounters& Core::Impl::counters() {
  CoreCounters& counters = machine_.counters;
  counters.prefetch_waiting = machine_.goals.size();
  counters.divergences = machine_.book.divergences();
  counters.schedules_dropped = machine_.book.dropped();
  counters.iterations_too_long = machine_.book.too_long();
  return counters;
}

TierCounters Core::Impl::CountersOf(TierIndex tier) const {
  const TierState& state = machine_.tiers[tier];
  return TierCounters{state.pool.limit(),
                      state.pool.used(),
                      state.pool.used_peak(),
                      state.by_kind,
                      state.committed,
                      state.reserved,
                      machine_.frames.TransitFrames(tier),
                      state.mappings};
}

absl::StatusOr<std::unique_ptr<Core>> Core::Create(const CoreOptions& options) {
  if (options.tiers.size() < 2 || options.tiers.size() > kTiersMax) {
    return absl::InvalidArgumentError("a core has two to four tiers");
  }
  if (options.policy == nullptr) return absl::InvalidArgumentError("a core has a policy");
  if (options.copies_in_flight_max == 0) {
    return absl::InvalidArgumentError("copies_in_flight_max is at least 1");
  }
  if (options.schedules.schedules_max == 0 || options.schedules.accesses_max == 0) {
    return absl::InvalidArgumentError("schedules_max and accesses_max are at least 1");
  }
  for (std::size_t t = 0; t < options.tiers.size(); ++t) {
    const bool middle = t > 0 && t + 1 < options.tiers.size();
    const bool may_be_empty = t > 0 && !middle;
    const FrameIndex least = middle ? 2 * options.transit_frames + 1 : (may_be_empty ? 0 : 1);
    if (options.tiers[t].frames < least || (middle && options.transit_frames == 0)) {
      return absl::InvalidArgumentError(
          absl::StrCat("tier ", t, " has ", options.tiers[t].frames, " frames, needs ", least));
    }
  }
  return std::unique_ptr<Core>(new Core(std::make_unique<Impl>(options)));
}

Core::Core(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Core::~Core() = default;

void Core::Handle(const Event& event, std::vector<Action>* actions) {
  impl_->Handle({&event, 1}, actions);
}

void Core::Handle(std::span<const Event> events, std::vector<Action>* actions) {
  impl_->Handle(events, actions);
}
PlanInput Core::RecordedPlan(KeyIndex key) const {
  return impl_->machine().plan_follower.RecordedPlan(key);
}
std::vector<RecordedStep> Core::RecordedSteps(KeyIndex key) const {
  return impl_->machine().book.Steps(key);
}
std::uint64_t Core::RecordingOf(KeyIndex key) const {
  return impl_->machine().book.FingerprintOf(key);
}
bool Core::HasPlan(KeyIndex key) const { return impl_->machine().plan_follower.HasPlan(key); }
const CoreCounters& Core::counters() const { return impl_->counters(); }
TierCounters Core::tier(TierIndex tier) const { return impl_->CountersOf(tier); }
FrameIndex Core::op_frames_max(TierIndex tier) const {
  return impl_->machine().capacity.OpFramesMax(tier);
}
PagesByTier Core::CountFixedPages() const { return impl_->machine().fixed_pages.Count(); }
std::uint32_t Core::tasks_in_flight() const {
  return static_cast<std::uint32_t>(impl_->machine().tasks.size());
}
std::uint32_t Core::pinned_pages() const { return impl_->machine().pinned_pages; }
std::vector<PageIndex> Core::PagesOnlyIn(const std::vector<FrameIndex>& frames) const {
  return impl_->machine().copies.PagesOnlyIn(frames);
}
NewestCopy Core::FindNewest(PageIndex page, TierIndex first) const {
  return impl_->machine().copies.FindNewest(page, first);
}
void Core::Waits(std::vector<TicketWait>* waits) const { impl_->machine().wait_causes.List(waits); }
void Core::CheckInvariants() const { impl_->machine().invariants.Check(); }

}  // namespace sluice::core
