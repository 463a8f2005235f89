#include "runtime/engine/report/event_log.h"

#include <algorithm>

#include "fmt/format.h"

namespace sluice::engine {

const core::Event& EventLog::Add(core::Event event) {
  base::MutexLock lock(mutex_);
  if (!all_ && entries_.size() == kCapacity) entries_.pop_front();
  entries_.push_back({std::move(event), {}});
  ++added_;
  return entries_.back().event;
}

void EventLog::Answer(const std::vector<core::Action>& actions) {
  if (!all_) return;
  base::MutexLock lock(mutex_);
  entries_.back().actions = actions;
}

void EventLog::Dump(Logger& logger, std::string_view why) {
  base::MutexLock lock(mutex_);
  const std::uint64_t kept = std::min<std::uint64_t>(entries_.size(), kCapacity);
  const std::uint64_t first = std::max(added_ - kept, dumped_);
  logger.Info(fmt::format("{}; the last {} core events follow", why, added_ - first));
  for (std::uint64_t number = first; number < added_; ++number) {
    const Entry& entry = entries_[static_cast<std::size_t>(entries_.size() - (added_ - number))];
    logger.Info(fmt::format("event {}: {}", number, core::ToString(entry.event)));
  }
  dumped_ = added_;
}

std::vector<EventLog::Entry> EventLog::Copy() const {
  base::MutexLock lock(mutex_);
  return {entries_.begin(), entries_.end()};
}

}  // namespace sluice::engine
