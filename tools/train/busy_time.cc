#include "tools/train/busy_time.h"

#include <algorithm>
#include <cstddef>

namespace sluice::tools {

void BusyTime::Add(const TimeSpan& span) {
  base::MutexLock lock(mutex_);
  spans_.push_back(span);
  if (spans_.size() < merge_at_) return;
  Merge();
  merge_at_ = std::max(kMergeAtMin, 2 * spans_.size());
}

void BusyTime::ForgetBefore(std::chrono::steady_clock::time_point time) {
  base::MutexLock lock(mutex_);
  std::erase_if(spans_, [time](const TimeSpan& span) { return span.end < time; });
}

std::size_t BusyTime::spans() {
  base::MutexLock lock(mutex_);
  return spans_.size();
}

void BusyTime::Merge() {
  std::sort(spans_.begin(), spans_.end(), [](const TimeSpan& a, const TimeSpan& b) {
    return a.begin < b.begin;
  });
  std::size_t merged = 0;
  for (std::size_t i = 1; i < spans_.size(); ++i) {
    if (spans_[i].begin <= spans_[merged].end) {
      spans_[merged].end = std::max(spans_[merged].end, spans_[i].end);
    } else {
      spans_[++merged] = spans_[i];
    }
  }
  if (!spans_.empty()) spans_.resize(merged + 1);
}

double BusyTime::SecondsWithin(const TimeSpan& window) {
  base::MutexLock lock(mutex_);
  Merge();
  std::chrono::duration<double> busy{0};
  for (const TimeSpan& span : spans_) {
    const auto begin = std::max(span.begin, window.begin);
    const auto end = std::min(span.end, window.end);
    if (begin < end) busy += end - begin;
  }
  return busy.count();
}

}  // namespace sluice::tools
