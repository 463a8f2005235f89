#include "fmt/format.h"
#include "tests/runtime/core/driver/random_workload.h"

/// Events that random programs must bear: other callers, misuse and faults.

namespace sluice::core {
namespace {

constexpr std::size_t kBlocksMax = 12;

}  // namespace

// --- whoever else calls -----------------------------------------------------------------------

void RandomWorkload::Disturb() {
  if (scenario_.plans && Chance(100)) AdoptSome();
  switch (Below(10)) {
    case 0:
    case 1:
      return Prefetch();
    case 2:
      return DiscardOne();
    case 3:
      return scenario_.segments ? FreeOne() : void();
    case 4:
      if (!scenario_.segments || blocks_.size() >= kBlocksMax) return;
      CreateBlock(static_cast<std::uint32_t>(1 + Below(5)),
                  static_cast<TierIndex>(scenario_.driver.frames.size() - 1),
                  false);
      return;
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
  const auto ops_ahead = static_cast<std::uint32_t>(Chance(300) ? Below(20) : 0);
  driver_.Send(PrefetchPages{RandomOp(false).requests, ops_ahead});
}

void RandomWorkload::DiscardOne() {
  const auto request = RandomRequest(false);
  if (request) driver_.Send(DiscardPages{request->page, 1});
}

void RandomWorkload::FreeOne() {
  if (blocks_.empty()) return;
  const std::size_t chosen = Below(blocks_.size());
  const Block block = blocks_[chosen];
  if (block.permanent) return;
  blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(chosen));
  driver_.Send(FreePages{block.first_page, block.pages});
}

void RandomWorkload::ReserveOne() {
  if (!reservations_.empty()) {
    driver_.Send(ReleaseFrames{reservations_.back()});
    reservations_.pop_back();
    return;
  }
  if (reservation_pending_) return;
  reservation_pending_ = true;
  const auto tier = static_cast<TierIndex>(Below(scenario_.driver.frames.size() - 1));
  driver_.Send(ReserveFrames{.reservation = next_reservation_++,
                             .tier = tier,
                             .frames = static_cast<std::uint32_t>(1 + Below(3))});
}

void RandomWorkload::ChangeBudget() {
  if (budget_pending_) return;
  const auto tier = static_cast<TierIndex>(Below(scenario_.driver.frames.size()));
  const FrameIndex most = scenario_.driver.frames[tier];
  const auto cut = static_cast<FrameIndex>(Below(most / 2 + 1));
  if (most - cut == driver_.frames().limit(tier)) return;
  budget_pending_ = true;
  driver_.Send(SetBudget{.tier = tier, .frames = most - cut});
}

void RandomWorkload::AbandonSome() {
  AbandonCopies event;
  const FrameIndex frames = scenario_.driver.frames.back();
  for (FrameIndex frame = 0; frame < frames; ++frame) {
    if (Chance(300)) event.frames.push_back(frame);
  }
  driver_.Send(std::move(event));
}

/// Sends a plan like a background planner: mostly for the running key, from its newest recording.
/// Some plans are for another key, late, or made for another key; some are withdrawn.
void RandomWorkload::AdoptSome() {
  const KeyIndex key = Chance(850) ? key_ : static_cast<KeyIndex>(Below(scripts_.size()));
  if (Chance(50)) {
    driver_.Send(AdoptPlan{key, nullptr});
  } else if (Chance(150) && !plans_.empty()) {
    driver_.Send(AdoptPlan{key, plans_[Below(plans_.size())]});
  } else {
    plans_.push_back(RandomPlan(key));
    driver_.Send(AdoptPlan{key, plans_.back()});
  }
}

/// A plan for a random machine with random times, whatever follows.
std::shared_ptr<const Plan> RandomWorkload::RandomPlan(KeyIndex key) {
  constexpr double kSlowest = 0.5;
  PlanInput input = driver_.core().RecordedPlan(key);
  const auto speed = [this] { return kSlowest / static_cast<double>(1 + Below(20)); };
  const std::size_t steps = driver_.core().RecordedSteps(key).size();
  for (std::uint32_t i = 0; i < steps; ++i) {
    input.step_seconds.push_back(static_cast<double>(Below(4)));
    input.step_ends.push_back(static_cast<std::uint32_t>(i + 1 + Below(3)));
  }
  for (std::size_t i = 0; i + 1 < input.frames.size(); ++i) {
    input.links.push_back({.in_s = speed(), .out_s = speed(), .both_s = Chance(300) ? speed() : 0});
  }
  return std::make_shared<const Plan>(MakePlan(input));
}

/// Misuse by a buggy user, which must have no effect.
void RandomWorkload::Misuse() {
  if (next_ticket_ == 1) return;
  const TicketNumber number = 1 + Below(next_ticket_);
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

// --- faults -----------------------------------------------------------------------------------

bool RandomWorkload::MayLoseSource(const SimTask& task) const {
  if (task.fill() != nullptr) {
    return task.fill()->kind == FillKind::kFile || task.fill()->kind == FillKind::kReproduce;
  }
  const StartCopy* copy = task.copy();
  if (copy == nullptr) return false;
  // No other reader of the frame may exist, who would have to see the loss too.
  const SimFrame& source = driver_.frames().frame(copy->source, copy->source_frame);
  return source.pins == 0 && source.readers == 1;
}

std::optional<FailureKind> RandomWorkload::Fault(const SimTask& task) {
  if (winding_down_) return std::nullopt;
  if (driver_.now() < full_until_ && task.target == full_tier_ && task.copy() != nullptr) {
    return FailureKind::kTargetFull;
  }
  if (!Chance(scenario_.faults_per_mille)) return std::nullopt;
  const std::uint64_t dice = Below(3);
  if (dice == 0 && MayLoseSource(task)) return FailureKind::kSourceLost;
  if (task.copy() == nullptr) return FailureKind::kTargetFailed;
  if (dice == 2) return Chance(500) ? FailureKind::kSourceRefused : FailureKind::kTargetFailed;
  if (scenario_.long_faults) {
    full_tier_ = task.target;
    full_until_ = driver_.now() + 1000;
  }
  return FailureKind::kTargetFull;
}

}  // namespace sluice::core
