#include "runtime/engine/event_history.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"

namespace sluice::engine {

const core::Event& EventHistory::Add(core::Event event) {
  if (events_.size() == kCapacity) events_.pop_front();
  events_.push_back(std::move(event));
  ++added_;
  return events_.back();
}

void EventHistory::Dump(Logger& logger, std::string_view why) {
  const std::uint64_t oldest = added_ - events_.size();
  const std::uint64_t first = std::max(oldest, dumped_);
  logger.Error(fmt::format("{}; the last {} core events follow", why, added_ - first));
  for (std::uint64_t number = first; number < added_; ++number) {
    const core::Event& event = events_[static_cast<std::size_t>(number - oldest)];
    logger.Error(fmt::format("event {}: {}", number, core::ToString(event)));
  }
  dumped_ = added_;
}

}  // namespace sluice::engine
