#include "fmt/format.h"
#include "tests/runtime/core/driver/random_workload.h"

/// Events that random programs must bear: other callers and misuse.

namespace sluice::core {

void RandomWorkload::Disturb() {
  if (scenario_.plans && random_.Chance(100)) AdoptSome();
  switch (random_.Below(10)) {
    case 0:
    case 1:
      return Prefetch();
    case 2:
      return DiscardOne();
    case 3:
      return scenario_.segments ? blocks_.FreeOne() : void();
    case 4:
      return scenario_.segments ? blocks_.CreateOne() : void();
    case 5:
    case 6:
      return scenario_.budgets ? ReserveOne() : void();
    case 7:
      return scenario_.budgets ? ChangeBudget() : void();
    case 8:
      return AbandonSome();
    default:
      return Misuse();
  }
}

void RandomWorkload::Prefetch() {
  const auto ops_ahead = static_cast<std::uint32_t>(random_.Chance(300) ? random_.Below(20) : 0);
  driver_.Send(PrefetchPages{RandomOp(false).requests, ops_ahead});
}

void RandomWorkload::DiscardOne() {
  const auto request = blocks_.RandomRequest(false);
  if (request) driver_.Send(DiscardPages{request->page, 1});
}

void RandomWorkload::ReserveOne() {
  if (!reservations_.empty()) {
    driver_.Send(ReleaseFrames{reservations_.back()});
    reservations_.pop_back();
    return;
  }
  if (reservation_pending_) return;
  reservation_pending_ = true;
  const auto tier = static_cast<TierIndex>(random_.Below(scenario_.driver.frames.size() - 1));
  driver_.Send(ReserveFrames{.reservation = next_reservation_++,
                             .tier = tier,
                             .frames = static_cast<std::uint32_t>(1 + random_.Below(3))});
}

void RandomWorkload::ChangeBudget() {
  if (budget_pending_) return;
  const auto tier = static_cast<TierIndex>(random_.Below(scenario_.driver.frames.size()));
  const FrameIndex most = scenario_.driver.frames[tier];
  const auto cut = static_cast<FrameIndex>(random_.Below(most / 2 + 1));
  if (most - cut == driver_.frames().limit(tier)) return;
  budget_pending_ = true;
  driver_.Send(SetBudget{.tier = tier, .frames = most - cut});
}

void RandomWorkload::AbandonSome() {
  AbandonCopies event;
  const FrameIndex frames = scenario_.driver.frames.back();
  for (FrameIndex frame = 0; frame < frames; ++frame) {
    if (random_.Chance(300)) event.frames.push_back(frame);
  }
  driver_.Send(std::move(event));
}

/// Sends a plan like a background planner: mostly for the running key, from its newest recording.
/// Some plans are for another key, late, or made for another key; some are withdrawn.
void RandomWorkload::AdoptSome() {
  const KeyIndex key =
      random_.Chance(850) ? key_ : static_cast<KeyIndex>(random_.Below(scripts_.size()));
  if (random_.Chance(50)) {
    driver_.Send(AdoptPlan{key, nullptr});
  } else if (random_.Chance(150) && !plans_.empty()) {
    driver_.Send(AdoptPlan{key, plans_[random_.Below(plans_.size())]});
  } else {
    plans_.push_back(RandomPlan(key));
    driver_.Send(AdoptPlan{key, plans_.back()});
  }
}

/// A plan for a random machine with random times, whatever follows.
std::shared_ptr<const Plan> RandomWorkload::RandomPlan(KeyIndex key) {
  constexpr double kSlowest = 0.5;
  PlanInput input = driver_.core().RecordedPlan(key);
  const auto speed = [this] { return kSlowest / static_cast<double>(1 + random_.Below(20)); };
  const std::size_t steps = driver_.core().RecordedSteps(key).size();
  for (std::uint32_t i = 0; i < steps; ++i) {
    input.step_seconds.push_back(static_cast<double>(random_.Below(4)));
    input.step_ends.push_back(static_cast<std::uint32_t>(i + 1 + random_.Below(3)));
  }
  for (std::size_t i = 0; i + 1 < input.frames.size(); ++i) {
    input.links.push_back(
        {.in_s = speed(), .out_s = speed(), .both_s = random_.Chance(300) ? speed() : 0});
  }
  return std::make_shared<const Plan>(MakePlan(input));
}

/// Misuse by a buggy user, which must have no effect.
void RandomWorkload::Misuse() {
  if (next_ticket_ == 1) return;
  const TicketNumber number = 1 + random_.Below(next_ticket_);
  const auto found = driver_.tickets().find(number);
  if (found == driver_.tickets().end() || found->second.open()) {
    driver_.Send(Release{.ticket = next_ticket_ + 5, .pages = {0}});
    return;
  }
  const auto& left = found->second.leases_left;
  const bool over = std::all_of(left.begin(), left.end(), [](auto count) { return count == 0; });
  if (over && !left.empty()) {
    driver_.Send(Release{.ticket = number, .pages = {found->second.acquire.requests[0].page}});
  }
  driver_.Send(Cancel{number});
}

}  // namespace sluice::core
