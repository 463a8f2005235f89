#include "runtime/sim/simulator/sim_clock.h"

namespace sluice::sim {

SimClock::SimClock(const Machine& machine, SimObserver* observer) : observer_(observer) {
  for (std::size_t i = 0; i < machine.links.size(); ++i) {
    links_.emplace_back(machine.links[i], machine.LeadsToDrives(i));
  }
}

std::size_t SimClock::FirstLink() const {
  std::size_t first = 0;
  for (std::size_t i = 1; i < links_.size(); ++i) {
    if (links_[i].next() < links_[first].next()) first = i;
  }
  return first;
}

void SimClock::TakeFrom(std::size_t link) {
  const PathModel::Finished finished = links_[link].Finish();
  Push(finished.complete_s, {false, finished.transfer.task});
  if (observer_ != nullptr) observer_->OnTransfer(link, finished.transfer);
}

std::optional<SimClock::Moment> SimClock::Next() {
  for (std::size_t first = FirstLink(); links_[first].next() < PathModel::kNever;
       first = FirstLink()) {
    if (!queue_.empty() && queue_.top().seconds <= links_[first].next()) break;
    TakeFrom(first);
  }
  if (queue_.empty()) return std::nullopt;
  const Timed next = queue_.top();
  queue_.pop();
  now_ = next.seconds;
  return next.moment;
}

const std::vector<LinkModel>& SimClock::links() {
  for (LinkModel& link : links_) link.PassTime(now_);
  return links_;
}

}  // namespace sluice::sim
