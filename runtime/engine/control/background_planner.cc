#include "runtime/engine/control/background_planner.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

namespace sluice::engine {
namespace {

using Clock = std::chrono::steady_clock;

bool Differs(double a, double b, double factor) { return a > b * factor || b > a * factor; }

bool FixedDiffer(const PlanBasis& was, const PlanBasis& is) {
  for (std::size_t tier = 0; tier < was.links.size(); ++tier) {
    const auto before = static_cast<double>(was.fixed[tier]);
    const auto after = static_cast<double>(is.fixed[tier]);
    if (std::abs(after - before) > kFixedDrift * was.frames[tier]) return true;
  }
  return false;
}

}  // namespace

bool HasDrifted(const PlanBasis& was, const PlanBasis& is) {
  if (was.recording != is.recording || was.frames != is.frames) return true;
  if (FixedDiffer(was, is)) return true;
  if (Differs(was.seconds, is.seconds, kSecondsDrift)) return true;
  if (Differs(was.lead_seconds, is.lead_seconds, kLeadDrift)) return true;
  for (std::size_t i = 0; i < was.links.size(); ++i) {
    if (Differs(was.links[i].in_s, is.links[i].in_s, kLinkDrift)) return true;
    if (Differs(was.links[i].out_s, is.links[i].out_s, kLinkDrift)) return true;
  }
  return false;
}

BackgroundPlanner::BackgroundPlanner(Parts parts)
    : parts_(std::move(parts)), clock_(parts_.steps_max) {}

absl::Status BackgroundPlanner::Start(const std::vector<int>& cpus) {
  return thread_.Start("sluice-planner", cpus);
}

void BackgroundPlanner::Observe(const core::Core& core,
                                const core::Event& event,
                                std::span<const core::Action> actions) {
  clock_.Observe(event, actions, parts_.now());
  const auto times = clock_.TakeIteration();
  if (!times.has_value()) return;
  std::vector<core::PlanLink> links = parts_.meters->PageSeconds(parts_.links, parts_.page_bytes);
  if (!planning_) PlanFor(core, *times, std::move(links));
}

void BackgroundPlanner::PlanFor(const core::Core& core,
                                const IterationTimes& as_asked,
                                std::vector<core::PlanLink> links) {
  std::erase_if(known_, [&](const auto& entry) { return core.RecordingOf(entry.first) == 0; });
  // An iteration that was cut short, or that did something else, is none to plan by.
  const std::optional<IterationTimes> ordered =
      InRecordedOrder(as_asked, core.RecordedSteps(as_asked.key));
  if (!ordered.has_value() || ordered->steps.empty()) return;
  const IterationTimes& times = *ordered;
  const double lead_seconds = LeadFor(times);
  PlanBasis basis{.recording = core.RecordingOf(times.key),
                  .seconds = times.seconds,
                  .lead_seconds = lead_seconds,
                  .frames = {},
                  .fixed = core.CountFixedPages(),
                  .links = std::move(links)};
  for (core::TierIndex tier = 0; tier <= basis.links.size(); ++tier) {
    basis.frames.push_back(core.op_frames_max(tier));
  }
  const auto [found, first] = known_.try_emplace(times.key);
  Known& known = found->second;
  // This key's plan may have gone while another key's was made, and its schedule been recorded
  // again.
  const bool kept = !first && core.HasPlan(times.key);
  if (kept && IsOutlier(known, basis)) {
    known.outlier = true;
    return;
  }
  known.outlier = false;
  known.last = times;
  if (kept && !HasDrifted(known.basis, basis)) return;
  known.basis = basis;
  core::PlanInput input = core.RecordedPlan(times.key);
  input.links = std::move(basis.links);
  input.pages_under_way = parts_.pages_under_way;
  input.lead_seconds = lead_seconds;
  core::SetStepTimes(times.steps, times.seconds, &input);
  MakeInBackground(times.key, std::move(input));
}

/// A program may pause once, to evaluate or to save, and go on as before. So an iteration that
/// takes another time, or with other pages fixed, counts only if the next one does, too.
bool BackgroundPlanner::IsOutlier(const Known& known, const PlanBasis& is) {
  const bool alike = known.basis.recording == is.recording && known.basis.frames == is.frames;
  const bool other =
      Differs(known.last.seconds, is.seconds, kSecondsDrift) || FixedDiffer(known.basis, is);
  return alike && !known.outlier && other;
}

double BackgroundPlanner::LeadFor(const IterationTimes& times) const {
  const auto found = known_.find(times.key);
  const bool comparable =
      found != known_.end() && found->second.last.steps.size() == times.steps.size();
  const double jitter = comparable ? JitterBetween(found->second.last, times) : 0;
  return std::clamp(
      jitter * kJittersAhead, times.seconds * kLeadShareMin, times.seconds * kLeadShareMax);
}

void BackgroundPlanner::MakeInBackground(core::KeyIndex key, core::PlanInput input) {
  planning_ = true;
  thread_.Post([this, key, input = std::move(input)] {
    const Clock::time_point begin = Clock::now();
    std::optional<core::Plan> plan = parts_.make(input, [this] { return stop_.load(); });
    if (!plan.has_value()) return;
    const std::chrono::duration<double> spent = Clock::now() - begin;
    auto shared = std::make_shared<const core::Plan>(*std::move(plan));
    parts_.mailbox->Post(PlanNotice{{key, std::move(shared)}, spent.count()});
  });
}

void BackgroundPlanner::Note(const PlanNotice& notice) {
  planning_ = false;
  ++stats_.made;
  stats_.seconds += notice.seconds;
}

}  // namespace sluice::engine
