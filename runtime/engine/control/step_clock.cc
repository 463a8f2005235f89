#include "runtime/engine/control/step_clock.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <utility>
#include <variant>

namespace sluice::engine {

std::optional<IterationTimes> InRecordedOrder(const IterationTimes& times,
                                              std::span<const core::RecordedStep> steps) {
  if (times.steps.size() != steps.size()) return std::nullopt;
  std::map<core::LaneIndex, std::deque<core::StepTime>> by_lane;
  for (std::size_t i = 0; i < steps.size(); ++i) by_lane[times.lanes[i]].push_back(times.steps[i]);
  IterationTimes ordered{.key = times.key, .steps = {}, .lanes = {}, .seconds = times.seconds};
  for (const core::RecordedStep& step : steps) {
    std::deque<core::StepTime>& left = by_lane[step.lane];
    if (left.empty()) return std::nullopt;
    ordered.steps.push_back(left.front());
    ordered.lanes.push_back(step.lane);
    left.pop_front();
  }
  return ordered;
}

double JitterBetween(const IterationTimes& before, const IterationTimes& now) {
  if (!(before.seconds > 0) || now.steps.empty()) return 0;
  const double scale = now.seconds / before.seconds;
  double squares = 0;
  for (std::size_t i = 0; i < now.steps.size(); ++i) {
    const double apart = before.steps[i].begin_s * scale - now.steps[i].begin_s;
    squares += apart * apart;
  }
  return std::sqrt(squares / static_cast<double>(now.steps.size()));
}

void StepClock::Observe(const core::Event& event,
                        std::span<const core::Action> actions,
                        TimePoint now) {
  Advance(now);
  if (const auto* acquire = std::get_if<core::Acquire>(&event)) Add(*acquire);
  if (const auto* release = std::get_if<core::Release>(&event)) Remove(*release);
  if (const auto* begin = std::get_if<core::BeginIteration>(&event)) Begin(begin->key);
  if (std::holds_alternative<core::EndIteration>(event)) End();
  for (const core::Action& action : actions) {
    if (const auto* grant = std::get_if<core::GrantTicket>(&action)) Grant(grant->ticket);
    if (const auto* failed = std::get_if<core::FailTicket>(&action)) Forget(failed->ticket);
  }
}

std::optional<IterationTimes> StepClock::TakeIteration() {
  return std::exchange(ended_, std::nullopt);
}

void StepClock::Advance(TimePoint now) {
  const bool stands = waiting_ > 0 && holding_ == 0;
  if (!stands) elapsed_seconds_ += std::chrono::duration<double>(now - last_).count();
  last_ = now;
}

void StepClock::Begin(core::KeyIndex key) {
  End();
  ++iterations_;
  begun_ = elapsed_seconds_;
  running_ = IterationTimes{.key = key, .steps = {}, .lanes = {}, .seconds = 0};
}

void StepClock::End() {
  if (!running_.has_value()) return;
  running_->seconds = elapsed_seconds_ - begun_;
  ended_ = std::exchange(running_, std::nullopt);
}

void StepClock::Add(const core::Acquire& event) {
  TimedTicket ticket;
  for (const core::PageRequest& request : event.requests) ticket.leases += request.leases;
  if (running_.has_value() && running_->steps.size() == steps_max_) running_.reset();
  if (running_.has_value()) {
    ticket.iteration = iterations_;
    ticket.step = running_->steps.size();
    running_->steps.push_back(
        {.begin_s = elapsed_seconds_ - begun_, .end_s = std::numeric_limits<double>::infinity()});
    running_->lanes.push_back(event.lane);
  }
  ++waiting_;
  tickets_.emplace(event.ticket, ticket);
}

void StepClock::Grant(core::TicketNumber number) {
  const auto found = tickets_.find(number);
  if (found == tickets_.end()) return;
  found->second.granted = true;
  --waiting_;
  ++holding_;
  if (found->second.leases == 0) Forget(number);
}

void StepClock::Remove(const core::Release& event) {
  const auto found = tickets_.find(event.ticket);
  if (found == tickets_.end()) return;
  const std::uint64_t released = event.pages.size();
  found->second.leases -= std::min(released, found->second.leases);
  if (found->second.leases == 0) Forget(event.ticket);
}

void StepClock::Forget(core::TicketNumber number) {
  const auto found = tickets_.find(number);
  if (found == tickets_.end()) return;
  const TimedTicket& ticket = found->second;
  --(ticket.granted ? holding_ : waiting_);
  if (running_.has_value() && ticket.iteration == iterations_) {
    running_->steps[ticket.step].end_s = elapsed_seconds_ - begun_;
  }
  tickets_.erase(found);
}

}  // namespace sluice::engine
