#include "runtime/core/schedule/schedule_book.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace sluice::core {
namespace {

/// Steps within which a page that is used again counts as having stayed.
constexpr std::uint32_t kShortlyBefore = 64;

}  // namespace

bool ScheduleBook::Begin(KeyIndex key) {
  End();
  const bool repeats =
      followed_ != nullptr && key == key_ && !diverged_ && now_ == followed_->steps.size();
  base_ += followed_ != nullptr && !diverged_ ? followed_->steps.size() : now_;
  key_ = key;
  now_ = 0;
  running_ = true;
  diverged_ = given_up_ = false;
  lane_next_.clear();
  recording_ = Recording{};
  const auto found = schedules_.find(key);
  if (found != schedules_.end()) found->second.last_used = ++used_;
  followed_ = found == schedules_.end() ? nullptr : &found->second;
  return !repeats;
}

void ScheduleBook::End() {
  if (!running_) return;
  running_ = false;
  const bool complete =
      followed_ != nullptr && !diverged_ && recording_.steps.size() == followed_->steps.size();
  if (complete) return;
  if (followed_ != nullptr && !diverged_) ++divergences_;
  diverged_ = true;
  Keep();
}

/// Keeps the recording in place of the key's earlier one; keeps none when it was too long.
void ScheduleBook::Keep() {
  const auto before = schedules_.find(key_);
  if (before != schedules_.end()) {
    size_ -= SizeOf(before->second);
    schedules_.erase(before);
  }
  followed_ = nullptr;
  if (given_up_) return;
  Index(&recording_);
  recording_.last_used = ++used_;
  size_ += SizeOf(recording_);
  followed_ = &schedules_.emplace(key_, std::exchange(recording_, {})).first->second;
  DropOthers();
}

/// The one that was used last stays: it is not too long alone.
void ScheduleBook::DropOthers() {
  while (schedules_.size() > limits_.schedules_max || size_ > limits_.accesses_max) {
    const auto oldest =
        std::min_element(schedules_.begin(), schedules_.end(), [](const auto& a, const auto& b) {
          return a.second.last_used < b.second.last_used;
        });
    size_ -= SizeOf(oldest->second);
    schedules_.erase(oldest);
    ++dropped_;
  }
}

std::uint64_t ScheduleBook::SizeOf(const Recording& recording) {
  return recording.steps.size() + recording.requests.size() + recording.deaths.size();
}

/// Whether the running iteration may become longer by that much; if not nothing is kept of it.
bool ScheduleBook::HasRoom(std::uint64_t more) {
  if (given_up_ || SizeOf(recording_) + more <= limits_.accesses_max) return !given_up_;
  given_up_ = true;
  ++too_long_;
  recording_ = Recording{};
  return false;
}

void ScheduleBook::Record(const Acquire& acquire) {
  if (!HasRoom(1 + acquire.requests.size())) return;
  const RecordedOp step{acquire.lane,
                        acquire.name,
                        static_cast<std::uint32_t>(recording_.requests.size()),
                        static_cast<std::uint32_t>(acquire.requests.size())};
  recording_.lanes[acquire.lane].push_back(static_cast<std::uint32_t>(recording_.steps.size()));
  recording_.steps.push_back(step);
  recording_.requests.insert(
      recording_.requests.end(), acquire.requests.begin(), acquire.requests.end());
}

bool ScheduleBook::Advance(const Acquire& acquire) {
  if (!running_) return false;
  Record(acquire);
  if (followed_ == nullptr || diverged_) {
    ++now_;
    return false;
  }
  const auto lane = followed_->lanes.find(acquire.lane);
  std::uint32_t& next = lane_next_[acquire.lane];
  if (lane == followed_->lanes.end() || next >= lane->second.size() ||
      !Same(*followed_, followed_->steps[lane->second[next]], acquire)) {
    diverged_ = true;
    ++divergences_;
    ++now_;
    return false;
  }
  last_ = lane->second[next];
  now_ = std::max<std::uint64_t>(now_, last_ + 1);
  ++next;
  return true;
}

bool ScheduleBook::Same(const Recording& recording,
                        const RecordedOp& step,
                        const Acquire& acquire) {
  if (step.name != acquire.name || step.count != acquire.requests.size()) return false;
  for (std::uint32_t i = 0; i < step.count; ++i) {
    const PageRequest& a = recording.requests[step.first + i];
    const PageRequest& b = acquire.requests[i];
    if (a.page != b.page || a.tier != b.tier || a.mode != b.mode || a.map != b.map) return false;
  }
  return true;
}

void ScheduleBook::Index(Recording* recording) {
  PageIndex pages = 0;
  for (const PageRequest& request : recording->requests) pages = std::max(pages, request.page + 1);
  std::vector<std::uint32_t> first(pages + 1, 0);
  for (const PageRequest& request : recording->requests) ++first[request.page + 1];
  for (PageIndex p = 0; p < pages; ++p) first[p + 1] += first[p];
  std::vector<RecordedUse> uses(recording->requests.size());
  std::vector<std::uint32_t> fill = first;
  for (std::uint32_t s = 0; s < recording->steps.size(); ++s) {
    const RecordedOp& step = recording->steps[s];
    for (std::uint32_t r = step.first; r < step.first + step.count; ++r) {
      uses[fill[recording->requests[r].page]++] = RecordedUse{s, r};
    }
  }
  recording->first_use = std::move(first);
  recording->uses = std::move(uses);
  recording->fingerprint = Fingerprint(*recording);
  IndexDeaths(recording);
  IndexEntries(recording);
}

void ScheduleBook::NoteDeath(PageIndex page) {
  if (!running_ || !HasRoom(1)) return;
  recording_.deaths.push_back({page, static_cast<std::uint32_t>(recording_.steps.size())});
}

/// FNV-1a over all that a plan is made from (Fowler, Noll, Vo; draft-eastlake-fnv).
std::uint64_t ScheduleBook::Fingerprint(const Recording& recording) {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&hash](std::uint64_t value) { hash = (hash ^ value) * 0x100000001b3; };
  for (const RecordedOp& step : recording.steps) {
    for (const std::uint64_t value : {step.lane, step.name, step.count}) add(value);
  }
  for (const PageRequest& request : recording.requests) {
    add(request.page);
    add(request.tier);
    add(static_cast<std::uint64_t>(request.mode));
    add(request.map ? 1 : 0);
  }
  for (const Death& death : recording.deaths) {
    add(death.page);
    add(death.step);
  }
  return hash;
}

std::uint64_t ScheduleBook::FingerprintOf(KeyIndex key) const {
  const auto found = schedules_.find(key);
  return found == schedules_.end() ? 0 : found->second.fingerprint;
}

void ScheduleBook::IndexDeaths(Recording* recording) {
  for (const Death& death : recording->deaths) {
    if (death.page + 1 >= recording->first_use.size()) continue;
    const auto begin = recording->uses.begin() + recording->first_use[death.page];
    const auto end = recording->uses.begin() + recording->first_use[death.page + 1];
    const auto after =
        std::lower_bound(begin, end, death.step, [](const RecordedUse& use, std::uint32_t step) {
          return use.step < step;
        });
    if (after != begin) (after - 1)->dies = true;
  }
}

std::vector<PlanUse> ScheduleBook::UsesOf(const Recording& recording, PageIndex page) {
  std::vector<PlanUse> uses;
  for (std::uint32_t u = recording.first_use[page]; u < recording.first_use[page + 1]; ++u) {
    const RecordedUse& use = recording.uses[u];
    const PageRequest& request = recording.requests[use.request];
    uses.push_back({use.step, request.tier, request.mode, request.map, use.dies});
  }
  return uses;
}

std::vector<PlanItem> ScheduleBook::Items(KeyIndex key) const {
  std::vector<PlanItem> items;
  const auto found = schedules_.find(key);
  if (found == schedules_.end()) return items;
  const Recording& recording = found->second;
  for (PageIndex page = 0; page + 1 < recording.first_use.size(); ++page) {
    if (recording.first_use[page] == recording.first_use[page + 1]) continue;
    std::vector<PlanUse> uses = UsesOf(recording, page);
    const bool goes_on = !items.empty() && items.back().first_page + items.back().pages == page &&
                         items.back().uses == uses;
    if (!goes_on) items.push_back({.first_page = page, .uses = std::move(uses)});
    ++items.back().pages;
  }
  return items;
}

std::vector<RecordedStep> ScheduleBook::Steps(KeyIndex key) const {
  std::vector<RecordedStep> steps;
  const auto found = schedules_.find(key);
  if (found == schedules_.end()) return steps;
  for (const RecordedOp& step : found->second.steps) steps.push_back({step.lane, step.name});
  return steps;
}

void ScheduleBook::IndexEntries(Recording* recording) {
  recording->entries.assign(1, {});
  // Step after each page's last use in each tier or a faster one.
  std::vector<std::array<std::uint32_t, kTiersMax>> used(recording->first_use.size(),
                                                         std::array<std::uint32_t, kTiersMax>{});
  for (std::uint32_t s = 0; s < recording->steps.size(); ++s) {
    const RecordedOp& step = recording->steps[s];
    auto entries = recording->entries.back();
    for (std::uint32_t r = step.first; r < step.first + step.count; ++r) {
      const PageRequest& request = recording->requests[r];
      for (TierIndex t = request.tier; t < kTiersMax; ++t) {
        std::uint32_t& last = used[request.page][t];
        if (last == 0 || s + 1 - last > kShortlyBefore) ++entries[t];
        last = s + 1;
      }
    }
    recording->entries.push_back(entries);
  }
}

std::uint64_t ScheduleBook::EntriesBetween(TierIndex tier, Position from, Position to) const {
  const auto until = [this, tier](Position position) {
    const auto& entries = followed_->entries;
    const Position length = followed_->steps.size();
    return (position - base_) / length * entries.back()[tier] +
           entries[(position - base_) % length][tier];
  };
  return empty() || to <= from ? 0 : until(to) - until(from);
}

NextUse ScheduleBook::Describe(const Recording& recording, const RecordedUse& use, Position base) {
  const PageRequest& request = recording.requests[use.request];
  return NextUse{base + use.step, request.tier, request.mode, request.map};
}

NextUse ScheduleBook::NextUseFrom(PageIndex page, Position position) const {
  SLUICE_CHECK(following(), "next uses are known only while a schedule is followed");
  const Recording& recording = *followed_;
  if (page + 1 >= recording.first_use.size()) return NextUse{};
  const auto begin = recording.uses.begin() + recording.first_use[page];
  const auto end = recording.uses.begin() + recording.first_use[page + 1];
  if (begin == end) return NextUse{};
  const Position length = recording.steps.size();
  Position base = base_;
  Position offset = position > base_ ? position - base_ : 0;
  base += offset / length * length;
  offset %= length;
  const auto found = std::lower_bound(
      begin, end, offset, [](const RecordedUse& use, Position at) { return use.step < at; });
  if (found != end) return Describe(recording, *found, base);
  return Describe(recording, *begin, base + length);
}

std::span<const PageRequest> ScheduleBook::StepAt(Position position) const {
  SLUICE_CHECK(following() && position >= base_, "only the steps of a followed schedule are known");
  const RecordedOp& step = followed_->steps[(position - base_) % followed_->steps.size()];
  return std::span<const PageRequest>(followed_->requests).subspan(step.first, step.count);
}

}  // namespace sluice::core
