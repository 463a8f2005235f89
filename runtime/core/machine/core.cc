#include "runtime/core/core.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/strings.h"
#include "runtime/core/machine/core_impl.h"

namespace sluice::core {

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
PlanInput Core::RecordedPlan(KeyIndex key) const { return impl_->RecordedPlan(key); }
std::vector<RecordedStep> Core::RecordedSteps(KeyIndex key) const {
  return impl_->RecordedSteps(key);
}
std::uint64_t Core::RecordingOf(KeyIndex key) const { return impl_->RecordingOf(key); }
bool Core::HasPlan(KeyIndex key) const { return impl_->HasPlan(key); }
const CoreCounters& Core::counters() const { return impl_->counters(); }
TierCounters Core::tier(TierIndex tier) const { return impl_->tier_counters(tier); }
FrameIndex Core::op_frames_max(TierIndex tier) const { return impl_->OpFramesMax(tier); }
std::uint32_t Core::tasks_in_flight() const { return impl_->tasks_in_flight(); }
std::uint32_t Core::pinned_pages() const { return impl_->pinned_pages(); }
std::vector<PageIndex> Core::PagesOnlyIn(const std::vector<FrameIndex>& frames) const {
  return impl_->PagesOnlyIn(frames);
}
NewestCopy Core::FindNewest(PageIndex page, TierIndex first) const {
  return impl_->FindNewest(page, first);
}
void Core::Waits(std::vector<TicketWait>* waits) const { impl_->Waits(waits); }
void Core::CheckInvariants() const { impl_->CheckInvariants(); }

Core::Impl::Impl(const CoreOptions& options)
    : options_(options),
      online_(options.policy->online()),
      goals_(options.tiers.size()),
      book_(options.schedules) {
  for (const TierConfig& tier : options.tiers) tiers_.emplace_back(tier);
  links_.resize(options.tiers.size() - 1);
  for (TierIndex t = 0; t < last_tier(); ++t) TellFrames(t);
}

void Core::Impl::Handle(std::span<const Event> events, std::vector<Action>* actions) {
  actions_ = actions;
  for (const Event& event : events) {
    const bool of_task = std::holds_alternative<TaskDone>(event) ||
                         std::holds_alternative<TaskFailed>(event) ||
                         std::holds_alternative<TaskUnderWay>(event);
    if (!of_task) tasks_since_progress_ = 0;  // somebody outside goes on
    std::visit([this](const auto& e) { On(e); }, event);
  }
  Pump();
  actions_ = nullptr;
}

void Core::Impl::On(const CreateSegment& event) {
  const PagesByTier places = CapacityFor(event);
  const std::uint64_t available = std::accumulate(places.begin(), places.end(), std::uint64_t{0});
  if (event.pages > available) {
    Emit(SegmentRefused{event.segment, static_cast<std::uint32_t>(available), places});
    return;
  }
  if (pages_.size() < event.first_page + event.pages) pages_.resize(event.first_page + event.pages);
  PagesByTier committed{};
  PageIndex index = event.first_page;
  const PageIndex end = event.first_page + event.pages;
  if (event.read_only) {
    while (index < end) MakePage(index++, event.lowest, event);
    Emit(SegmentCreated{event.segment, committed});
    return;
  }
  for (int tier = event.lowest; tier >= 0; --tier) {
    const auto t = static_cast<TierIndex>(tier);
    committed[t] = std::min(places[t], end - index);
    tiers_[t].committed += committed[t];
    for (std::uint32_t i = 0; i < committed[t]; ++i) MakePage(index++, t, event);
  }
  Emit(SegmentCreated{event.segment, committed});
}

void Core::Impl::MakePage(PageIndex index, TierIndex lowest, const CreateSegment& event) {
  SLUICE_CHECK(!pages_[index].exists, "a new segment's page indices are free");
  Page fresh;
  fresh.exists = true;
  fresh.content = event.file_home;
  fresh.file_home = event.file_home;
  fresh.reproducible = event.reproducible;
  fresh.read_only = event.read_only;
  fresh.lowest = lowest;
  fresh.kind = event.kind;
  fresh.segment = event.segment;
  pages_[index] = std::move(fresh);
}

void Core::Impl::On(const BeginIteration& event) {
  const bool moved = book_.Begin(event.key);
  options_.policy->OnStep(book_.now());
  DropPlans();
  if (moved) RefreshNextUses();
  FollowPlan(event.key, moved);
}

void Core::Impl::On(const EndIteration&) {
  book_.End();
  DropPlans();
}

const CoreCounters& Core::Impl::counters() {
  counters_.prefetch_waiting = goals_.size();
  counters_.divergences = book_.divergences();
  counters_.schedules_dropped = book_.dropped();
  counters_.iterations_too_long = book_.too_long();
  return counters_;
}

TierCounters Core::Impl::tier_counters(TierIndex tier) const {
  const TierState& state = tiers_[tier];
  return TierCounters{state.pool.limit(),
                      state.pool.used(),
                      state.pool.used_peak(),
                      state.by_kind,
                      state.committed,
                      state.reserved,
                      TransitFrames(tier),
                      state.mappings};
}

FrameIndex Core::Impl::OpFramesMax(TierIndex tier) const {
  const TierState& state = tiers_[tier];
  const FrameIndex limit =
      state.budget_target.has_value() ? *state.budget_target : state.pool.limit();
  const FrameIndex kept = TransitFrames(tier) + state.reserved;
  return limit > kept ? limit - kept : 0;
}

}  // namespace sluice::core
