#include "tests/runtime/core/driver/random_workload.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"

namespace sluice::core {
namespace {

constexpr std::uint64_t kDisturbTimer = 1'000'000;
constexpr std::uint64_t kHoldMax = 150;

}  // namespace

RandomWorkload::RandomWorkload(const Scenario& scenario)
    : scenario_(scenario), random_(scenario.driver.seed), driver_(scenario.driver) {
  if (scenario.faults_per_mille > 0) {
    driver_.set_fault([this](TaskNumber, const SimTask& task) {
      return winding_down_ ? std::nullopt : faults_.Next(task);
    });
  }
  workers_.resize(scenario.threads);
}

void RandomWorkload::Run() {
  blocks_.CreateAll();
  if (scenario_.iterations) MakeScripts();
  for (std::uint32_t i = 0; i < workers_.size(); ++i) driver_.SetTimer(1 + random_.Below(20), i);
  driver_.SetTimer(30, kDisturbTimer);
  while (driver_.verdict().ok() && driver_.event_count() < scenario_.events) {
    if (driver_.frames().tasks().empty()) driver_.CheckProgress();
    const auto moment = driver_.Step();
    if (!moment) break;
    TakeAnswers();
    if (moment->is_timer) OnTimer(moment->id);
    TakeAnswers();
  }
  WindDown();
  ReadEverything();
  if (driver_.verdict().ok()) driver_.CheckReplay();
}

// --- ops --------------------------------------------------------------------------------------

RandomWorkload::OpPlan RandomWorkload::RandomOp(bool permanent) {
  OpPlan plan{.name = static_cast<NameIndex>(random_.Below(100)), .discard = random_.Chance(100)};
  const std::uint64_t count = 1 + random_.Below(scenario_.op_pages_max);
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto request = blocks_.RandomRequest(permanent);
    if (!request) continue;
    const bool there = std::any_of(plan.requests.begin(),
                                   plan.requests.end(),
                                   [&](const auto& other) { return other.page == request->page; });
    if (there) continue;
    plan.requests.push_back(*request);
    if (!Fits(plan.requests) && !random_.Chance(30)) plan.requests.pop_back();
  }
  return plan;
}

bool RandomWorkload::Fits(const std::vector<PageRequest>& requests) {
  std::vector<FrameIndex> counts(scenario_.driver.frames.size());
  for (const PageRequest& request : requests) ++counts[request.tier];
  for (TierIndex tier = 0; tier < counts.size(); ++tier) {
    if (counts[tier] > driver_.core().op_frames_max(tier)) return false;
  }
  return true;
}

void RandomWorkload::MakeScripts() {
  scripts_.resize(1 + random_.Below(3));
  for (auto& lanes : scripts_) {
    lanes.resize(workers_.size());
    for (auto& script : lanes) {
      const std::uint64_t steps = 3 + random_.Below(10);
      for (std::uint64_t i = 0; i < steps; ++i) script.push_back(RandomOp(true));
    }
  }
}

void RandomWorkload::OnTimer(std::uint64_t id) {
  if (id == kDisturbTimer) {
    Disturb();
    driver_.SetTimer(1 + random_.Below(60), kDisturbTimer);
    return;
  }
  Advance(static_cast<std::uint32_t>(id));
}

void RandomWorkload::Advance(std::uint32_t index) {
  Worker& worker = workers_[index];
  if (worker.state == State::kIdle) return StartOp(index);
  if (worker.state == State::kHolding) return Hold(index);
  if (worker.state == State::kWaiting && random_.Chance(20)) driver_.Send(Cancel{worker.waiting});
}

void RandomWorkload::StartOp(std::uint32_t index) {
  Worker& worker = workers_[index];
  if (winding_down_) {
    worker.state = State::kStopped;
    return;
  }
  if (!NextPlan(&worker, index)) return;
  worker.op = next_op_++;
  worker.nests = !scenario_.iterations && !scenario_.ask_ahead && random_.Chance(500);
  AcquireFor(index, worker.plan);
  if (scenario_.ask_ahead) AskAhead(index);
}

bool RandomWorkload::NextPlan(Worker* worker, std::uint32_t lane) {
  if (!scenario_.iterations) {
    worker->plan = RandomOp(false);
    return true;
  }
  if (!in_iteration_) BeginNextIteration();
  const auto& script = scripts_[key_][lane];
  if (worker->next_step == script.size()) {
    const bool all = std::all_of(workers_.begin(), workers_.end(), [this](const Worker& other) {
      return other.state == State::kIdle &&
             other.next_step ==
                 scripts_[key_][static_cast<std::size_t>(&other - workers_.data())].size();
    });
    if (!all) {
      driver_.SetTimer(10 + random_.Below(20), lane);
      return false;
    }
    driver_.Send(EndIteration{});
    in_iteration_ = false;
    if (scenario_.plans) AdoptSome();
    BeginNextIteration();
  }
  worker->plan = random_.Chance(15) ? RandomOp(true) : scripts_[key_][lane][worker->next_step];
  ++worker->next_step;
  return true;
}

void RandomWorkload::BeginNextIteration() {
  if (random_.Chance(200)) key_ = static_cast<KeyIndex>(random_.Below(scripts_.size()));
  driver_.Send(BeginIteration{key_});
  in_iteration_ = true;
  for (Worker& worker : workers_) worker.next_step = 0;
}

/// `within`: by an op of its own, within that of the worker.
void RandomWorkload::AcquireFor(std::uint32_t index, const OpPlan& plan, bool within) {
  Worker& worker = workers_[index];
  worker.state = State::kWaiting;
  worker.waiting = Ask(index, within ? next_op_++ : worker.op, plan, worker.nests);
  if (random_.Chance(100)) driver_.SetTimer(1 + random_.Below(kHoldMax), index);
}

TicketNumber RandomWorkload::Ask(std::uint32_t lane, OpNumber op, const OpPlan& plan, bool nested) {
  const TicketNumber ticket = next_ticket_++;
  driver_.Send(Acquire{.ticket = ticket,
                       .op = op,
                       .lane = lane,
                       .name = plan.name,
                       .requests = plan.requests,
                       .nested = nested});
  if (scenario_.driver.under_way && random_.Chance(700)) driver_.Send(GrantUnderWay{ticket});
  return ticket;
}

/// Asks for the next op before the current one waits, like a thread that hides the hand-over
/// between its ops.
void RandomWorkload::AskAhead(std::uint32_t index) {
  Worker& worker = workers_[index];
  if (winding_down_ || worker.ahead.has_value()) return;
  AskedAhead ahead{.op = next_op_++};
  if (scenario_.iterations) {
    const auto& script = scripts_[key_][index];
    if (worker.next_step == script.size()) return;
    ahead.plan = script[worker.next_step++];
  } else {
    ahead.plan = RandomOp(false);
  }
  ahead.ticket = next_ticket_;
  worker.ahead = ahead;  // stored before the answer comes
  Ask(index, ahead.op, ahead.plan);
}

void RandomWorkload::TakeUpAhead(std::uint32_t index) {
  Worker& worker = workers_[index];
  const AskedAhead ahead = *std::exchange(worker.ahead, std::nullopt);
  worker.op = ahead.op;
  worker.plan = ahead.plan;
  worker.waiting = ahead.ticket;
  worker.state = ahead.granted ? State::kHolding : State::kWaiting;
  if (ahead.granted) worker.held.push_back(ahead.ticket);
  if (ahead.granted) driver_.SetTimer(1 + random_.Below(kHoldMax), index);
}

void RandomWorkload::Hold(std::uint32_t index) {
  Worker& worker = workers_[index];
  if (!scenario_.iterations && !winding_down_ && worker.held.size() < 3 && random_.Chance(150)) {
    return AcquireFor(index, RandomOp(false), worker.nests && random_.Chance(700));
  }
  ReleaseSome(index);
  if (worker.held.empty()) return EndOp(index);
  driver_.SetTimer(1 + random_.Below(kHoldMax), index);
}

void RandomWorkload::ReleaseSome(std::uint32_t index) {
  Worker& worker = workers_[index];
  const std::vector<TicketNumber> held = worker.held;
  for (const TicketNumber ticket : held) {
    if (random_.Chance(600)) ReleaseTicket(ticket, random_.Chance(600));
  }
  std::erase_if(worker.held, [this](TicketNumber ticket) {
    const auto& left = driver_.ticket(ticket).leases_left;
    return std::all_of(left.begin(), left.end(), [](auto count) { return count == 0; });
  });
}

void RandomWorkload::ReleaseTicket(TicketNumber number, bool all) {
  const SimTicket& ticket = driver_.ticket(number);
  Release release{.ticket = number};
  for (std::size_t i = 0; i < ticket.leases_left.size(); ++i) {
    for (std::uint32_t k = 0; k < ticket.leases_left[i]; ++k) {
      if (all || random_.Chance(500)) release.pages.push_back(ticket.acquire.requests[i].page);
    }
  }
  random_.Shuffle(&release.pages);
  driver_.Send(release);
}

void RandomWorkload::EndOp(std::uint32_t index) {
  Worker& worker = workers_[index];
  worker.state = State::kIdle;
  if (worker.plan.discard) {
    for (const PageRequest& request : worker.plan.requests) {
      const ShadowPage& page = driver_.shadow().page(request.page);
      if (page.exists && !page.freeing()) driver_.Send(DiscardPages{request.page, 1});
    }
  }
  if (worker.ahead.has_value()) {
    TakeUpAhead(index);
    AskAhead(index);
    return;
  }
  driver_.SetTimer(1 + random_.Below(20), index);
}

// --- answers ----------------------------------------------------------------------------------

void RandomWorkload::TakeAnswers() {
  while (!driver_.answers().empty()) {
    const Action answer = std::move(driver_.answers().front());
    driver_.answers().pop_front();
    if (const auto* grant = std::get_if<GrantTicket>(&answer)) {
      OnGranted(grant->ticket);
    } else if (const auto* fail = std::get_if<FailTicket>(&answer)) {
      OnFailed(*fail);
    } else if (const auto* reserved = std::get_if<FramesReserved>(&answer)) {
      reservations_.push_back(reserved->reservation);
      reservation_pending_ = false;
    } else if (std::holds_alternative<ReservationRefused>(answer)) {
      reservation_pending_ = false;
    } else if (std::holds_alternative<BudgetSet>(answer) ||
               std::holds_alternative<BudgetRefused>(answer)) {
      budget_pending_ = false;
    }
  }
}

void RandomWorkload::OnGranted(TicketNumber ticket) {
  for (std::uint32_t i = 0; i < workers_.size(); ++i) {
    Worker& worker = workers_[i];
    if (worker.ahead.has_value() && worker.ahead->ticket == ticket) {
      worker.ahead->granted = true;
      if (worker.held.empty()) driver_.verdict().Fail("an op is granted before the one before it");
    }
    if (worker.state != State::kWaiting || worker.waiting != ticket) continue;
    worker.state = State::kHolding;
    worker.held.push_back(ticket);
    driver_.SetTimer(1 + random_.Below(kHoldMax), i);
  }
}

void RandomWorkload::OnFailed(const FailTicket& fail) {
  for (std::uint32_t i = 0; i < workers_.size(); ++i) {
    Worker& worker = workers_[i];
    if (worker.ahead.has_value() && worker.ahead->ticket == fail.ticket) worker.ahead.reset();
    if (worker.state != State::kWaiting || worker.waiting != fail.ticket) continue;
    for (const TicketNumber ticket : worker.held) ReleaseTicket(ticket, true);
    worker.held.clear();
    worker.state = State::kIdle;
    worker.ahead.has_value() ? TakeUpAhead(i) : driver_.SetTimer(1 + random_.Below(20), i);
  }
}

// --- the end ----------------------------------------------------------------------------------

void RandomWorkload::WindDown() {
  winding_down_ = true;
  for (int i = 0; i < 20000 && driver_.verdict().ok(); ++i) {
    if (driver_.frames().tasks().empty()) driver_.CheckProgress();
    const bool done = std::all_of(workers_.begin(), workers_.end(), [](const Worker& worker) {
      return worker.state == State::kStopped;
    });
    if (done && driver_.frames().tasks().empty()) break;
    const auto moment = driver_.Step();
    if (!moment) break;
    TakeAnswers();
    if (moment->is_timer && moment->id != kDisturbTimer) OnTimer(moment->id);
    TakeAnswers();
  }
  for (const ReservationNumber reservation : reservations_) {
    driver_.Send(ReleaseFrames{reservation});
  }
  for (TierIndex tier = 0; tier < scenario_.driver.frames.size(); ++tier) {
    driver_.Send(SetBudget{.tier = tier, .frames = scenario_.driver.frames[tier]});
  }
  driver_.Drain();
  driver_.CheckProgress();
}

/// Reads every page that is not lost. The driver compares the bytes at the grant.
void RandomWorkload::ReadEverything() {
  for (PageIndex page = 0; page < driver_.shadow().page_count(); ++page) {
    const ShadowPage& shadow = driver_.shadow().page(page);
    if (!shadow.exists || !driver_.verdict().ok()) continue;
    for (int attempt = 0;; ++attempt) {
      const TicketNumber ticket = next_ticket_++;
      driver_.Send(Acquire{.ticket = ticket,
                           .op = next_op_++,
                           .requests = {{.page = page, .tier = 0, .mode = PageMode::kRead}}});
      driver_.Drain();
      driver_.CheckProgress();
      if (!driver_.verdict().ok()) return;
      if (driver_.ticket(ticket).granted) {
        driver_.Send(Release{ticket, {page}});
        break;
      }
      if (shadow.lost) break;
      if (attempt < 20 && driver_.fault_count() > 0) continue;  // a fenced tier is being tried
      driver_.verdict().Fail(fmt::format("page {} cannot be read at the end", page));
      return;
    }
  }
}

}  // namespace sluice::core
