#include "runtime/core/tier_planner.h"

#include <algorithm>

namespace sluice::core {
namespace {

/// A page comes this share of the iteration before it is needed, or more, where that costs nothing.
constexpr double kLeadShare = 0.01;

std::vector<double> Stretched(std::vector<double> seconds, double by) {
  for (double& step : seconds) step *= by;
  return seconds;
}

}  // namespace

TierPlanner::TierPlanner(const PlanInput& input,
                         TierIndex tier,
                         const TierPace& pace,
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
      resident_(steps_, 0) {}

std::vector<PlanSpan> TierPlanner::AddTo(const std::vector<PlanSpan>& above, Plan* plan) {
  plan_ = plan;
  std::vector<PlanSpan> spans = above;
  for (std::uint32_t i = 0; i < input_.items.size() && !stop_(); ++i) AddUses(i, &spans);
  for (std::size_t i = 0; i < spans.size() && !stop_(); ++i) AddSpan(spans[i]);
  gone_.assign(gaps_.size(), 0);
  PlanSweep sweep(gaps_, resident_, input_.frames[tier_], calendar_, stop_);
  sweep.Run();
  std::vector<std::int64_t> resident = sweep.resident();
  std::vector<PlannedGap> planned = sweep.planned();
  if (swift_) BeginInTime(&planned, &resident);
  std::stable_sort(planned.begin(), planned.end(), [](const auto& a, const auto& b) {
    return a.in_begin < b.in_begin;
  });
  for (PlannedGap& gap : planned) {
    if (stop_()) break;
    gap.in_begin = Lead(gap, &resident);
  }
  WriteBesideReads(&planned, &resident);
  for (const PlannedGap& gap : planned) {
    if (stop_()) break;
    Emit(gap);
  }
  EmitDowns(&resident);
  return std::move(below_);
}

/// What comes begins as early as the link needs it to, while there is room.
void TierPlanner::BeginInTime(std::vector<PlannedGap>* planned,
                              std::vector<std::int64_t>* resident) {
  std::stable_sort(planned->begin(), planned->end(), [this](const auto& a, const auto& b) {
    return gaps_[a.gap].to > gaps_[b.gap].to;
  });
  for (PlannedGap& gap : *planned) {
    if (stop_()) return;
    const std::uint64_t to = gaps_[gap.gap].to;
    const std::uint64_t wanted = real_.InBegin(gap.out_done, to, gap.pages);
    while (gap.in_begin > wanted) {
      std::int64_t& there = (*resident)[(gap.in_begin - 1) % steps_];
      if (there + gap.pages > input_.frames[tier_]) break;
      there += gap.pages;
      --gap.in_begin;
    }
    real_.TakeIn(gap.in_begin, to, gap.pages);
  }
}

/// What is written while the link also brings pages slows them down, and takes processors when ops
/// may wait. Where there is room for longer, pages are written when nothing comes.
void TierPlanner::WriteBesideReads(std::vector<PlannedGap>* planned,
                                   std::vector<std::int64_t>* resident) {
  PlanLink link = input_.links[tier_];
  link.both_s = std::max({link.in_s, link.out_s, link.both_s});
  LinkCalendar quiet(Stretched(input_.step_seconds, stretch_), link);
  for (const PlannedGap& gap : *planned) {
    quiet.TakeIn(gap.out_done, gaps_[gap.gap].to, gap.pages);
  }
  for (PlannedGap& gap : *planned) {
    if (stop_()) return;
    if (MayWait(gap)) WriteInQuiet(&gap, &quiet, resident);
  }
}

/// Who has written the pages is who has used them last.
bool TierPlanner::MayWait(const PlannedGap& planned) const {
  const PlanSpan& span = gap_spans_[planned.gap];
  return planned.write_pages > 0 && !span.from_above && gaps_[planned.gap].write_use == span.use;
}

void TierPlanner::WriteInQuiet(PlannedGap* gap,
                               LinkCalendar* quiet,
                               std::vector<std::int64_t>* resident) const {
  const std::uint64_t from = gaps_[gap->gap].from;
  std::uint64_t end = gap->out_done;
  while (end < gap->in_begin && (*resident)[end % steps_] + gap->pages <= input_.frames[tier_]) {
    ++end;
  }
  const std::uint64_t done = quiet->OutDone(from, end, gap->write_pages);
  const std::uint64_t begin = quiet->OutBegin(from, done, gap->write_pages);
  quiet->TakeOut(begin, done, gap->write_pages);
  if (begin <= from || done <= gap->out_done) return;
  for (std::uint64_t at = gap->out_done; at < done; ++at) (*resident)[at % steps_] += gap->pages;
  gap->out_begin = begin;
  gap->out_done = done;
  gap->since_clean = 0;
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

/// What lies between uses of the item of which one is here and none in a faster tier.
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
    const bool dead = before.dies || after.mode == PageMode::kOverwrite;
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
  PlanGap gap{.from = span.from, .to = span.to, .pages = span.pages};
  FindWriter(span, &gap);
  gaps_.push_back(gap);
  gap_spans_.push_back(span);
}

/// What an op below needs could leave at once.
void TierPlanner::SendDown(const PlanSpan& span) {
  const std::uint64_t done = real_.OutDone(span.from, span.to, span.pages);
  for (LinkCalendar* calendar : {&calendar_, &real_}) {
    calendar->TakeOut(span.from, span.to, span.pages);
  }
  Occupy(span.from, done, span.pages);
  pages_out_ += span.pages;
  downs_.push_back({span, span.from, done});
}

/// Whether not all pages fit in the tier, though fewer may be used at any time.
bool TierPlanner::IsShort(TierIndex tier) const {
  std::uint64_t pages = 0;
  for (const PlanItem& item : input_.items) pages += item.pages;
  return pages > input_.frames[tier];
}

/// Where the tier below is short, what it needs stays while there is room: first what waits for the
/// shortest time, as it takes the least.
void TierPlanner::EmitDowns(std::vector<std::int64_t>* resident) {
  std::stable_sort(downs_.begin(), downs_.end(), [](const Down& a, const Down& b) {
    return a.span.to - a.span.from < b.span.to - b.span.from;
  });
  const auto below = static_cast<TierIndex>(tier_ + 1);
  const bool stays = stays_ && below < input_.links.size() && IsShort(below);
  for (Down& down : downs_) {
    if (stop_()) return;
    if (stays) StayLonger(&down, resident);
    plan_->leaves[LeaveStep(down.span, down.begin)].push_back(
        {down.span.first_page, down.span.pages, tier_});
    PlanSpan passed = down.span;
    passed.from = down.done;
    passed.begins_here = true;
    PassOn(passed);
  }
}

void TierPlanner::StayLonger(Down* down, std::vector<std::int64_t>* resident) const {
  const std::int64_t pages = down->span.pages;
  std::uint64_t end = down->done;
  while (end < down->span.to && (*resident)[end % steps_] + pages <= input_.frames[tier_]) ++end;
  std::uint64_t begin = real_.OutBegin(down->span.from, end, down->span.pages);
  const double enough = end < down->span.to ? 0 : LeadSeconds();
  for (double lead = 0; begin > down->span.from && lead < enough; --begin) {
    lead += input_.step_seconds[(begin - 1) % steps_];
  }
  const std::uint64_t done = std::min(end, real_.OutDone(begin, end, down->span.pages));
  if (done <= down->done) return;
  for (std::uint64_t at = down->done; at < done; ++at) (*resident)[at % steps_] += pages;
  down->begin = begin;
  down->done = done;
}

/// What an op has left below comes as late as possible.
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

/// To the tier below, which sees where the uses on either side are.
void TierPlanner::PassOn(PlanSpan span) {
  const PlanItem& item = input_.items[span.item];
  const auto below = static_cast<TierIndex>(tier_ + 1);
  span.begins_here = span.begins_here || item.uses[span.use].tier == below;
  span.ends_here = span.ends_here || item.uses[span.next].tier == below;
  span.from_above = true;
  if (span.from < span.to) below_.push_back(span);
}

/// Who wrote what the pages hold. What comes from above is written when it comes.
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
    // Who wrote may hold its other pages for longer than who has read these since.
    const std::uint64_t now = end + (use > span.use ? steps_ : 0);
    gap->since_write = now - std::min(now, EndOf(item, use));
    return;
  }
}

/// Pages come so much earlier than just in time where that costs nothing.
double TierPlanner::LeadSeconds() const {
  double total = 0;
  for (const double seconds : input_.step_seconds) total += seconds;
  return std::max(total * kLeadShare, input_.lead_seconds);
}

/// Where the pages may begin to come so that jitter does not matter, while there is room.
std::uint64_t TierPlanner::Lead(const PlannedGap& planned,
                                std::vector<std::int64_t>* resident) const {
  const double enough = LeadSeconds();
  double lead = 0;
  std::uint64_t begin = planned.in_begin;
  while (begin > planned.out_done && lead < enough) {
    std::int64_t& there = (*resident)[(begin - 1) % steps_];
    if (there + planned.pages > input_.frames[tier_]) break;
    there += planned.pages;
    --begin;
    lead += input_.step_seconds[begin % steps_];
  }
  return begin;
}

/// Of the pages of a gap that is planned in several parts, the next ones.
void TierPlanner::Emit(const PlannedGap& planned) {
  const PlanSpan& span = gap_spans_[planned.gap];
  gone_[planned.gap] += planned.pages;
  const PageIndex first = span.first_page + span.pages - gone_[planned.gap];
  pages_out_ += planned.write_pages;
  plan_->leaves[LeaveStep(span, planned.out_begin)].push_back({first, planned.pages, tier_});
  const PlanItem& item = input_.items[span.item];
  const std::uint32_t writer = gaps_[planned.gap].write_use;
  if (planned.write_pages > 0 && writer != span.use && !span.from_above) {
    plan_->leaves[item.uses[writer].step].push_back({first, planned.write_pages, tier_, true});
  }
  if (planned.write_pages > 0 && span.since_arrival > 0) {
    const std::uint64_t arrival = span.from + 2 * steps_ - span.since_arrival - 1;
    plan_->leaves[arrival % steps_].push_back({first, planned.write_pages, tier_, true});
  }
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

/// What leaves from `begin` on does so once the step before is over; what leaves at once, once the
/// use is.
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
