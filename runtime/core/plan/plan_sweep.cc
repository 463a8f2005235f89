#include "runtime/core/plan/plan_sweep.h"

#include <algorithm>
#include <utility>

namespace sluice::core {

PlanSweep::PlanSweep(std::vector<PlanGap> gaps,
                     std::vector<std::int64_t> resident,
                     std::int64_t frames,
                     SweepLink link,
                     const PlanStop& stop)
    : gaps_(std::move(gaps)),
      resident_(std::move(resident)),
      frames_(frames),
      steps_(resident_.size()),
      calendar_(std::move(link.seen)),
      real_(std::move(link.real)),
      written_first_(link.written_first),
      stop_(stop) {
  for (const PlanGap& gap : gaps_) {
    left_.push_back(gap.pages);
    if (gap.version != PlanGap::kNone && clean_.size() <= gap.version) {
      clean_.resize(gap.version + 1);
      clean_after_.resize(gap.version + 1);
    }
  }
}

void PlanSweep::Run() {
  if (steps_ == 0) return;
  const auto emptiest = static_cast<std::uint64_t>(
      std::min_element(resident_.begin(), resident_.end()) - resident_.begin());
  for (std::uint64_t i = 0; i < steps_ && !stop_(); ++i) FreeStep((emptiest + i) % steps_);
}

bool PlanSweep::Covers(const PlanGap& gap, std::uint64_t step) const {
  return (step >= gap.from && step < gap.to) || step + steps_ < gap.to;
}

/// Steps from `step`, which the gap covers, to its end.
std::uint64_t PlanSweep::Until(const PlanGap& gap, std::uint64_t step) const {
  return step >= gap.from ? gap.to - step : gap.to - step - steps_;
}

/// Number of further `pages` of the gap whose content is nowhere below. (The same pages leave in
/// every gap first.)
std::uint32_t PlanSweep::PagesToWrite(std::uint32_t gap, std::uint32_t pages) const {
  if (gaps_[gap].version == PlanGap::kNone) return 0;
  const std::uint32_t gone = gaps_[gap].pages - left_[gap] + pages;
  return gone - std::min(gone, clean_[gaps_[gap].version]);
}

PlanSweep::Away PlanSweep::WhenAway(std::uint32_t index, std::uint32_t pages) const {
  const PlanGap& gap = gaps_[index];
  Away away{.write_pages = PagesToWrite(index, pages), .out_done = gap.from, .in_begin = gap.to};
  if (gap.version != PlanGap::kNone) {
    // One iteration later, as the writer may have been in the one before.
    away.write_from = gap.from + steps_ - gap.since_write;
    std::uint64_t done = away.write_from + clean_after_[gap.version];
    if (away.write_pages > 0) {
      done = calendar_.OutDone(away.write_from, gap.to + steps_, away.write_pages);
    }
    // Pages that another gap has written so late are away in no step of this one.
    away.out_done = std::min(std::max(gap.from + steps_, done) - steps_, gap.to);
    away.clean = done;
  }
  away.in_begin = calendar_.InBegin(away.out_done, gap.to, pages);
  return away;
}

bool PlanSweep::Helps(const PlanGap& gap, const Away& away, std::uint64_t step) const {
  const std::uint64_t at = step >= gap.from ? step : step + steps_;
  return away.out_done <= at && at < away.in_begin;
}

/// Steps from `step` to the last one before `step` + `reach` in which there is no room.
std::uint64_t PlanSweep::LastWithoutRoom(std::uint64_t step, std::uint64_t reach) const {
  std::uint64_t last = reach;
  while (last > 0 && resident_[(step + last - 1) % steps_] <= frames_) --last;
  return last == 0 ? 0 : last - 1;
}

/// Whether all of the gap that is left would be written when it leaves, so that nobody waits.
bool PlanSweep::LeavesWritten(std::uint32_t index) const {
  const PlanGap& gap = gaps_[index];
  const std::uint32_t pages = PagesToWrite(index, left_[index]);
  if (pages == 0) return true;
  if (gap.since_write == 0) return false;
  const std::uint64_t from = gap.from + steps_ - gap.since_write;
  return real_.OutDone(from, gap.to + steps_, pages) <= gap.from + steps_;
}

/// The furthest first, but before it what is as good and leaves for nothing.
std::vector<std::uint32_t> PlanSweep::Candidates(std::uint64_t step) const {
  std::vector<std::pair<std::uint64_t, std::uint32_t>> nearness;
  for (std::uint32_t i = 0; i < gaps_.size(); ++i) {
    if (left_[i] > 0 && Covers(gaps_[i], step)) {
      nearness.emplace_back(UINT64_MAX - Until(gaps_[i], step), i);
    }
  }
  std::sort(nearness.begin(), nearness.end());
  std::vector<std::uint32_t> candidates;
  for (const auto& [near, i] : nearness) candidates.push_back(i);
  if (candidates.empty() || !written_first_) return candidates;
  const std::uint64_t last = LastWithoutRoom(step, Until(gaps_[candidates.front()], step));
  std::stable_partition(candidates.begin(), candidates.end(), [&](std::uint32_t i) {
    return Until(gaps_[i], step) > last && !stop_() && LeavesWritten(i);
  });
  return candidates;
}

std::uint32_t PlanSweep::PagesThatMayLeave(std::uint32_t index, const Turn& turn) const {
  if (!turn.preferred) return left_[index];
  const std::uint32_t gone = gaps_[index].pages - left_[index];
  return gaps_[index].preferred - std::min(gone, gaps_[index].preferred);
}

void PlanSweep::FreeStep(std::uint64_t step) {
  if (resident_[step] <= frames_) return;
  const std::vector<std::uint32_t> candidates = Candidates(step);
  for (const bool preferred : {true, false}) {
    for (const bool must_help : {true, false}) Leave(step, candidates, {preferred, must_help});
  }
}

void PlanSweep::Leave(std::uint64_t step,
                      const std::vector<std::uint32_t>& candidates,
                      const Turn& turn) {
  for (const std::uint32_t i : candidates) {
    if (resident_[step] <= frames_ || stop_()) return;
    const auto excess = static_cast<std::uint64_t>(resident_[step] - frames_);
    const auto pages =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(excess, PagesThatMayLeave(i, turn)));
    if (pages == 0) continue;
    Away away = WhenAway(i, pages);
    if (!Helps(gaps_[i], away, step)) {
      if (turn.must_help) continue;
      // The gap's pages are out as soon as can be; the step waits for that.
      const std::uint64_t at = step >= gaps_[i].from ? step : step + steps_;
      away.out_done = std::min(away.out_done, at);
      away.in_begin = std::max(away.in_begin, at + 1);
    }
    Choose(i, away, pages);
  }
}

void PlanSweep::Choose(std::uint32_t index, const Away& away, std::uint32_t pages) {
  const PlanGap& gap = gaps_[index];
  PlannedGap planned{.gap = index,
                     .pages = pages,
                     .write_pages = away.write_pages,
                     .out_done = away.out_done,
                     .in_begin = away.in_begin};
  if (away.write_pages > 0) {
    calendar_.TakeOut(away.write_from, gap.to + steps_, away.write_pages);
    real_.TakeOut(away.write_from, gap.to + steps_, away.write_pages);
    clean_[gap.version] += away.write_pages;
    clean_after_[gap.version] =
        std::max(clean_after_[gap.version], away.clean - std::min(away.clean, away.write_from));
  }
  if (gap.version != PlanGap::kNone) {
    const std::uint64_t clean = away.write_from + clean_after_[gap.version];
    planned.since_clean = away.out_done + steps_ - std::min(clean, away.out_done + steps_);
  }
  calendar_.TakeIn(away.out_done, gap.to, pages);
  for (std::uint64_t at = away.out_done; at < away.in_begin; ++at) resident_[at % steps_] -= pages;
  left_[index] -= pages;
  planned_.push_back(planned);
}

}  // namespace sluice::core
