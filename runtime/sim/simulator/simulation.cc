#include "runtime/sim/simulator/simulation.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/status.h"
#include "runtime/sim/simulator/sim_errors.h"

namespace sluice::sim {

absl::Status Simulation::CreatePersistent() {
  std::uint64_t pages = 0;
  for (const LayoutRun& run : layout_.runs) pages += run.persistent ? run.pages : 0;
  if (pages > room_) return TooMuchAlive(options_.machine, layout_, {pages, room_});
  for (std::uint32_t i = 0; i < layout_.runs.size(); ++i) {
    if (layout_.runs[i].persistent) CreateRun(i);
  }
  return HandleAll();
}

void Simulation::CreateRun(std::uint32_t index) {
  const LayoutRun& run = layout_.runs[index];
  pages_alive_ += run.pages;
  Feed(core::CreateSegment{.segment = index,
                           .first_page = run.first_page,
                           .pages = run.pages,
                           .lowest = static_cast<core::TierIndex>(options_.machine.links.size()),
                           .kind = run.kind,
                           .file_home = run.file_home});
}

absl::Status Simulation::RunIteration() {
  ops_.assign(layout_.ops.size(), {});
  runs_.clear();
  for (const LayoutRun& run : layout_.runs) runs_.push_back({.ops_left = run.ops});
  ops_to_end_ = layout_.ops.size();
  Feed(core::BeginIteration{});
  for (std::uint32_t op = 0; op < waits_.size(); ++op) {
    ops_[op].waits = waits_[op];
  }
  for (std::uint32_t op = 0; op < waits_.size(); ++op) {
    if (waits_[op] == 0) TakeTurn(op);
  }
  AskForOps();
  while (ops_to_end_ > 0) SLUICE_RETURN_IF_ERROR(GoOn());
  Feed(core::EndIteration{});
  ++iteration_;
  return HandleAll();
}

/// Handles all that is due at this moment, then moves on to the next event.
absl::Status Simulation::GoOn() {
  SLUICE_RETURN_IF_ERROR(HandleAll());
  if (ops_to_end_ == 0) return absl::OkStatus();
  const std::optional<SimClock::Moment> moment = clock_.Next();
  SLUICE_CHECK(moment.has_value(), "while an op waits, something is under way");
  if (moment->ends_op) {
    EndOp(static_cast<std::uint32_t>(moment->number));
  } else {
    EndTask(moment->number);
  }
  return absl::OkStatus();
}

void Simulation::EndTask(core::TaskNumber task) {
  meter_.CountEvents(1);
  const auto copy = copies_.find(task);
  if (copy != copies_.end()) {
    const std::optional<core::FailureKind> failure = options_.fault(copy->second);
    copies_.erase(copy);
    if (failure.has_value()) return Feed(core::TaskFailed{task, *failure});
  }
  Feed(core::TaskDone{task});
}

// --- ops ----------------------------------------------------------------------------------------

/// Everything before the op has ended.
void Simulation::TakeTurn(std::uint32_t op) {
  ops_[op].ready_s = clock_.now();
  ops_[op].has_turn = true;
  WantIfMay(op);
  for (const std::uint32_t follower : followers_[op]) WantIfMay(follower);
  if (ops_[op].granted) StartOp(op);
  if (ops_[op].failed) FinishOp(op);
}

/// An op may be asked for ahead of its own lane's op alone. Otherwise it might hold what the op of
/// another lane needs that has to go first.
bool Simulation::MayAskFor(std::uint32_t op) const {
  if (ops_[op].waits != 1 || !options_.ask_ahead) return ops_[op].waits == 0;
  const std::optional<std::uint32_t> before = before_in_lane_[op];
  return before.has_value() && ops_[*before].has_turn && !ops_[*before].ended;
}

void Simulation::WantIfMay(std::uint32_t op) {
  if (ops_[op].asked || !MayAskFor(op)) return;
  ops_[op].asked = true;
  wanted_.emplace(layout_.ops[op].lane, op);
}

/// Asks for ops in the order of each lane: none overtakes one that waits for room.
void Simulation::AskForOps() {
  std::optional<std::uint32_t> stuck_lane;
  for (auto next = wanted_.begin(); next != wanted_.end();) {
    const auto [lane, op] = *next;
    if (lane == stuck_lane || !HasRoom(op)) {
      stuck_lane = lane;
      ++next;
      continue;
    }
    next = wanted_.erase(next);
    AskFor(op);
  }
}

/// Whether there is room for the runs that the op makes. They may still wait for copies of pages
/// that are being freed, and before the op's turn for ops to end.
bool Simulation::HasRoom(std::uint32_t index) const {
  if (freeing_.empty() && ops_[index].waits == 0) return true;
  const PagedOp& op = layout_.ops[index];
  std::uint64_t pages = pages_alive_;
  for (const std::uint32_t i : op.runs) {
    if (runs_[i].created) continue;
    if (freeing_.contains(layout_.runs[i].first_page)) return false;
    pages += layout_.runs[i].pages;
  }
  return pages <= room_;
}

void Simulation::On(const core::PagesFreed& action) {
  freeing_.erase(action.first_page);
  pages_alive_ -= action.pages;
  AskForOps();
}

void Simulation::AskFor(std::uint32_t op) {
  const PagedOp& paged = layout_.ops[op];
  for (const std::uint32_t i : paged.runs) {
    if (runs_[i].created) continue;
    runs_[i].created = true;
    CreateRun(i);
  }
  core::Acquire acquire{.ticket = TicketOf(op),
                        .op = TicketOf(op),
                        .lane = paged.lane,
                        .name = op,
                        .requests = paged.requests};
  if (options_.alter) options_.alter(iteration_, op, &acquire.requests);
  for (const core::PageRequest& request : acquire.requests) ops_[op].pages.push_back(request.page);
  Feed(std::move(acquire));
}

void Simulation::On(const core::GrantTicket& action) {
  const std::uint32_t op = OpOf(action.ticket);
  ops_[op].granted = true;
  meter_.CountEvents(action.frames.size());
  if (ops_[op].waits == 0) StartOp(op);
}

void Simulation::StartOp(std::uint32_t op) {
  ops_[op].begin_s = clock_.now();
  meter_.CountStall(op, clock_.now() - ops_[op].ready_s);
  clock_.StartOp(op, layout_.ops[op].seconds);
}

/// Leaves out an op that fails. The cause is a fault, or that the op fits nowhere.
void Simulation::On(const core::FailTicket& action) {
  const std::uint32_t op = OpOf(action.ticket);
  meter_.CountFailure();
  if (action.reason == core::TicketFailure::kTooLarge) {
    status_ = OpTooLarge(options_.machine, layout_, action, op);
  }
  ops_[op].failed = true;
  if (ops_[op].waits == 0) FinishOp(op);
}

/// Ends the run, as too much is alive: pages that are being freed were waited for.
void Simulation::On(const core::SegmentRefused& action) {
  const auto creator = std::find_if(layout_.ops.begin(), layout_.ops.end(), [&](const auto& op) {
    return std::binary_search(op.runs.begin(), op.runs.end(), action.segment);
  });
  const std::uint64_t missing = layout_.runs[action.segment].pages - action.pages_available;
  status_ = TooMuchAlive(options_.machine, layout_, {room_ + missing, room_, &*creator});
}

void Simulation::EndOp(std::uint32_t op) {
  Feed(core::Release{.ticket = TicketOf(op), .pages = std::move(ops_[op].pages)});
  if (options_.observer != nullptr) {
    options_.observer->OnOp({op, ops_[op].ready_s, ops_[op].begin_s, clock_.now()});
  }
  FinishOp(op);
}

void Simulation::FinishOp(std::uint32_t op) {
  const PagedOp& paged = layout_.ops[op];
  for (const std::uint32_t i : paged.runs) {
    if (--runs_[i].ops_left > 0) continue;
    const LayoutRun& run = layout_.runs[i];
    freeing_.insert(run.first_page);
    Feed(core::FreePages{run.first_page, run.pages});
  }
  --ops_to_end_;
  ops_[op].ended = true;
  for (const std::uint32_t follower : followers_[op]) {
    if (--ops_[follower].waits == 0) {
      TakeTurn(follower);
    } else {
      WantIfMay(follower);
    }
  }
  AskForOps();
}

// --- the core -----------------------------------------------------------------------------------

absl::Status Simulation::HandleAll() {
  while (status_.ok() && !events_.empty()) {
    TakeBatch();
    Handle(batch_);
  }
  return status_;
}

/// The next event; of tasks that have ended at once, all.
void Simulation::TakeBatch() {
  batch_.clear();
  do {
    batch_.push_back(std::move(events_.front()));
    events_.pop_front();
  } while (std::holds_alternative<core::TaskDone>(batch_.back()) && !events_.empty() &&
           std::holds_alternative<core::TaskDone>(events_.front()));
}

void Simulation::Handle(std::span<const core::Event> events) {
  SimObserver* const observer = options_.observer;
  if (observer != nullptr) {
    for (const core::Event& event : events) observer->OnEvent(event, clock_.now());
  }
  core_->Handle(events, &actions_);
  for (const core::Action& action : actions_) {
    if (observer != nullptr) observer->OnAction(action, clock_.now());
    std::visit([this](const auto& a) { On(a); }, action);
  }
  if (observer != nullptr) observer->OnEventDone();
  actions_.clear();
}

void Simulation::On(const core::StartCopy& action) {
  meter_.CountEvents(1);
  if (options_.fault) copies_.emplace(action.task, action);
  const bool in = action.target < action.source;
  clock_.Send(std::min(action.source, action.target),
              {.direction = in ? core::LinkDirection::kIn : core::LinkDirection::kOut,
               .task = action.task,
               .bytes = layout_.page_bytes,
               .place = in ? action.source_frame : action.target_frame});
}

/// The last tier drops old slots of pages that have not left it.
void Simulation::On(const core::DropFrame& action) {
  if (action.tier + 1u < options_.machine.tiers.size()) meter_.CountEvents(1);
}

/// A file is read over the lowest link, and nothing else takes time. Where ops work in the last
/// tier, no link leads to the file.
void Simulation::On(const core::StartFill& action) {
  if (action.kind != core::FillKind::kFile || works_in_last_) {
    return Feed(core::TaskDone{action.task});
  }
  meter_.CountEvents(1);
  clock_.Send(options_.machine.links.size() - 1,
              {.direction = core::LinkDirection::kIn,
               .task = action.task,
               .bytes = layout_.page_bytes,
               .from_file = true,
               .place = action.page});
}

}  // namespace sluice::sim
