#include "runtime/core/plan/tier_planner.h"

#include <algorithm>

namespace sluice::core {

std::vector<double> TierPlanner::Stretched(std::vector<double> seconds, double by) {
  for (double& step : seconds) step *= by;
  return seconds;
}

TierPlanner::TierPlanner(const PlanInput& input,
                         TierIndex tier,
                         const TierPace& pace,
                         const TierAims& aims,
                         const PlanStop& stop)
    : input_(input),
      tier_(tier),
      steps_(input.step_seconds.size()),
      stretch_(pace.stretch),
      calendar_(pace.in_no_time
                    ? LinkCalendar()
                    : LinkCalendar(Stretched(input.step_seconds, pace.stretch * pace.swift),
                                   input.links[tier])),
      real_(Stretched(input.step_seconds, pace.stretch), input.links[tier]),
      swift_(pace.in_no_time || pace.swift > 1),
      stop_(stop),
      aims_(aims),
      resident_(steps_, 0) {
  if (aims.preferred != nullptr) preferred_ = *aims.preferred;
}

std::vector<PlanSpan> TierPlanner::AddTo(const std::vector<PlanSpan>& above, Plan* plan) {
  plan_ = plan;
  std::vector<PlanSpan> spans = above;
  for (std::uint32_t i = 0; i < input_.items.size() && !stop_(); ++i) AddUses(i, &spans);
  for (std::size_t i = 0; i < spans.size() && !stop_(); ++i) AddSpan(spans[i]);
  gone_.assign(gaps_.size(), 0);
  PlanSweep sweep(
      gaps_, resident_, input_.frames[tier_], {calendar_, real_, aims_.written_first}, stop_);
  sweep.Run();
  std::vector<PlannedGap> planned = sweep.planned();
  SetTimes(&planned, sweep.resident());
  return std::move(below_);
}

double TierPlanner::LinkSeconds() const {
  const PlanLink& link = input_.links[tier_];
  const auto in = static_cast<double>(pages_in_);
  const auto out = static_cast<double>(pages_out_);
  return std::max({in * link.in_s, out * link.out_s, (in + out) * link.both_s});
}

void TierPlanner::Occupy(std::uint64_t from, std::uint64_t to, std::int64_t pages) {
  for (std::uint64_t at = from; at < to; ++at) resident_[at % steps_] += pages;
}

/// The step in which the use's pages are free again: a later one than its own.
std::uint64_t TierPlanner::EndOf(const PlanItem& item, std::uint32_t use) const {
  const std::uint32_t step = item.uses[use].step;
  return std::max<std::uint64_t>(input_.step_ends[step], step + std::uint64_t{1});
}

/// Adds the spans between uses of the item of which one is here and none in a faster tier.
void TierPlanner::AddUses(std::uint32_t index, std::vector<PlanSpan>* spans) {
  const PlanItem& item = input_.items[index];
  const auto uses = static_cast<std::uint32_t>(item.uses.size());
  for (std::uint32_t u = 0; u < uses; ++u) {
    const std::uint32_t v = (u + 1) % uses;
    const PlanUse& before = item.uses[u];
    const PlanUse& after = item.uses[v];
    const std::uint64_t from = EndOf(item, u);
    const std::uint64_t to = after.step + (v <= u ? steps_ : 0);
    if (before.tier == tier_) Occupy(before.step, std::min(from, to), item.pages);
    // Content that is overwritten next needs no frame until then, unless it cannot leave.
    const bool leaves = item.lowest > tier_;
    const bool dead = before.dies || (after.mode == PageMode::kOverwrite && leaves);
    if (from >= to || dead || std::min(before.tier, after.tier) != tier_) continue;
    const std::uint64_t shift = from / steps_ * steps_;
    spans->push_back({.item = index,
                      .use = u,
                      .next = v,
                      .first_page = item.first_page,
                      .pages = item.pages,
                      .from = from - shift,
                      .to = to - shift,
                      .use_at = to - shift,
                      .begins_here = before.tier == tier_,
                      .ends_here = after.tier == tier_});
  }
}

void TierPlanner::AddSpan(PlanSpan span) {
  if (span.from >= span.to) return;
  const std::uint64_t shift = span.from / steps_ * steps_;
  span.from -= shift;
  span.to -= shift;
  span.use_at -= shift;
  if (span.begins_here && span.ends_here) {
    AddGap(span);
  } else if (span.begins_here) {
    SendDown(span);
  } else {
    FetchUp(span);
  }
}

void TierPlanner::AddGap(const PlanSpan& span) {
  Occupy(span.from, span.to, span.pages);
  if (input_.items[span.item].lowest <= tier_) return;
  PlanGap gap{.from = span.from, .to = span.to, .pages = span.pages};
  FindWriter(span, &gap);
  const auto preferred = preferred_.find({span.item, span.use});
  if (preferred != preferred_.end()) {
    gap.preferred = std::min(preferred->second, gap.pages);
    preferred->second -= gap.preferred;
  }
  gaps_.push_back(gap);
  gap_spans_.push_back(span);
}

/// Sends down pages that an op below needs, which could leave at once.
void TierPlanner::SendDown(const PlanSpan& span) {
  const std::uint64_t done = real_.OutDone(span.from, span.to, span.pages);
  for (LinkCalendar* calendar : {&calendar_, &real_}) {
    calendar->TakeOut(span.from, span.to, span.pages);
  }
  Occupy(span.from, done, span.pages);
  pages_out_ += span.pages;
  downs_.push_back({span, span.from, done});
}

/// Fetches up pages that an op has left below, as late as possible.
void TierPlanner::FetchUp(const PlanSpan& span) {
  const std::uint64_t begin = real_.InBegin(span.from, span.to, span.pages);
  for (LinkCalendar* calendar : {&calendar_, &real_}) {
    calendar->TakeIn(span.from, span.to, span.pages);
  }
  Occupy(begin, span.to, span.pages);
  EmitFetch(span, span.first_page, span.pages, begin);
  PlanSpan below = span;
  below.to = begin;
  below.ends_here = true;
  PassOn(below);
}

/// Passes a span on to the tier below, which sees where the uses on either side are.
void TierPlanner::PassOn(PlanSpan span) {
  const PlanItem& item = input_.items[span.item];
  const auto below = static_cast<TierIndex>(tier_ + 1);
  span.begins_here = span.begins_here || item.uses[span.use].tier == below;
  span.ends_here = span.ends_here || item.uses[span.next].tier == below;
  span.from_above = true;
  if (span.from < span.to) below_.push_back(span);
}

/// Finds the use that wrote the pages' content. Pages from above are written when they come.
void TierPlanner::FindWriter(const PlanSpan& span, PlanGap* gap) {
  const PlanItem& item = input_.items[span.item];
  const auto uses = static_cast<std::uint32_t>(item.uses.size());
  const std::uint64_t end = EndOf(item, span.use);
  for (std::uint32_t back = 0; back < uses; ++back) {
    const std::uint32_t use = (span.use + uses - back) % uses;
    if (item.uses[use].mode == PageMode::kRead) continue;
    gap->write_use = use;
    if (span.from_above) {
      gap->version = static_cast<std::uint32_t>(versions_.size() + gaps_.size());
      versions_[{span.item, uses + static_cast<std::uint32_t>(gaps_.size())}] = gap->version;
      gap->write_use = span.use;
      gap->since_write = span.since_arrival;
      return;
    }
    gap->version = versions_
                       .try_emplace({span.item, use},
                                    static_cast<std::uint32_t>(versions_.size() + gaps_.size()))
                       .first->second;
    // The op that wrote may hold its other pages for longer than the ops that have read these
    // since.
    const std::uint64_t now = end + (use > span.use ? steps_ : 0);
    gap->since_write = now - std::min(now, EndOf(item, use));
    return;
  }
}

/// Emits the next pages of a gap that is planned in several parts.
void TierPlanner::Emit(const PlannedGap& planned) {
  const PlanSpan& span = gap_spans_[planned.gap];
  gone_[planned.gap] += planned.pages;
  away_[{span.item, span.use}] += planned.pages;
  // Pages that may leave late and have room all the time do not leave at all.
  const bool leaves = !aims_.leaves_late || planned.out_done < planned.in_begin;
  const PageIndex first = span.first_page + span.pages - gone_[planned.gap];
  pages_out_ += planned.write_pages;
  if (leaves) {
    plan_->leaves[LeaveStep(span, planned.out_begin)].push_back({first, planned.pages, tier_});
  }
  const PlanItem& item = input_.items[span.item];
  const std::uint32_t writer = gaps_[planned.gap].write_use;
  if (planned.write_pages > 0 && writer != span.use && !span.from_above) {
    plan_->leaves[item.uses[writer].step].push_back({first, planned.write_pages, tier_, true});
  }
  if (planned.write_pages > 0 && span.since_arrival > 0) {
    const std::uint64_t arrival = span.from + 2 * steps_ - span.since_arrival - 1;
    plan_->leaves[arrival % steps_].push_back({first, planned.write_pages, tier_, true});
  }
  if (!leaves) return;
  EmitFetch(span, first, planned.pages, planned.in_begin);
  PlanSpan below = span;
  below.since_arrival = planned.since_clean;
  below.first_page = first;
  below.pages = planned.pages;
  below.from = planned.out_done;
  below.to = planned.in_begin;
  below.begins_here = below.ends_here = true;
  PassOn(below);
}

/// Step of a leave. Pages that leave from `begin` on do so once the step before is over. Pages that
/// leave at once do so once the use is over.
std::uint64_t TierPlanner::LeaveStep(const PlanSpan& span, std::uint64_t begin) const {
  if (begin > span.from) return (begin - 1) % steps_;
  return span.from_above ? (span.from + steps_ - 1) % steps_
                         : input_.items[span.item].uses[span.use].step;
}

void TierPlanner::EmitFetch(const PlanSpan& span,
                            PageIndex first,
                            std::uint32_t pages,
                            std::uint64_t begin) {
  const PlanUse& after = input_.items[span.item].uses[span.next];
  const bool here = after.tier == tier_;
  pages_in_ += pages;
  plan_->fetches[begin % steps_].push_back({first,
                                            pages,
                                            tier_,
                                            static_cast<std::uint32_t>(span.use_at - begin),
                                            here ? after.mode : PageMode::kRead,
                                            here && after.map});
}

}  // namespace sluice::core
