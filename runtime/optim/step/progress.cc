#include "runtime/optim/step/progress.h"

#include <algorithm>

namespace sluice::optim {

void Progress::Add(std::uint32_t parts, std::int64_t step) {
  const base::MutexLock lock(mutex_);
  reached_.emplace_back(parts, step);
}

std::int64_t Progress::Of(Part part) const {
  const base::MutexLock lock(mutex_);
  return reached_[part.entry][part.index];
}

void Progress::Reached(Part part, std::int64_t step) {
  const base::MutexLock lock(mutex_);
  reached_[part.entry][part.index] = step;
  failures_.erase({part.entry, part.index});
}

bool Progress::HasReached(std::uint32_t entry, std::int64_t step) const {
  const base::MutexLock lock(mutex_);
  return std::all_of(reached_[entry].begin(), reached_[entry].end(), [step](std::int64_t each) {
    return each >= step;
  });
}

bool Progress::AnyHasReached(std::int64_t step) const {
  const base::MutexLock lock(mutex_);
  return std::any_of(
      reached_.begin(), reached_.end(), [step](const std::vector<std::int64_t>& parts) {
        return std::any_of(
            parts.begin(), parts.end(), [step](std::int64_t each) { return each >= step; });
      });
}

void Progress::Failed(Part part, const Failure& failure) {
  const base::MutexLock lock(mutex_);
  failures_[{part.entry, part.index}] = failure;
}

void Progress::ForgetFailures() {
  const base::MutexLock lock(mutex_);
  failures_.clear();
}

void Progress::Set(std::uint32_t entry, std::int64_t step) {
  const base::MutexLock lock(mutex_);
  std::ranges::fill(reached_[entry], step);
}

void Progress::SetAll(std::int64_t step) {
  const base::MutexLock lock(mutex_);
  for (std::vector<std::int64_t>& parts : reached_) std::fill(parts.begin(), parts.end(), step);
  failures_.clear();
}

Progress::Summary Progress::SummaryOf(std::uint32_t entry, std::int64_t step) const {
  const base::MutexLock lock(mutex_);
  const std::vector<std::int64_t>& parts = reached_[entry];
  Summary summary{.least = *std::min_element(parts.begin(), parts.end())};
  for (std::uint32_t part = 0; part < parts.size(); ++part) {
    const auto failure = failures_.find({entry, part});
    if (parts[part] >= step && failure == failures_.end()) continue;
    Behind behind{.part = part};
    if (failure != failures_.end()) behind.why = failure->second;
    summary.behind.push_back(std::move(behind));
  }
  return summary;
}

}  // namespace sluice::optim
