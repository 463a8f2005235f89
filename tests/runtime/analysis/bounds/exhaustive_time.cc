#include "tests/runtime/analysis/bounds/exhaustive_time.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace sluice::analysis {
namespace {

const ScheduleAccess* Find(const std::vector<ScheduleAccess>& accesses, std::uint32_t tensor) {
  for (const ScheduleAccess& access : accesses) {
    if (access.tensor == tensor) return &access;
  }
  return nullptr;
}

std::uint8_t Bit(int tier) { return static_cast<std::uint8_t>(1 << tier); }

}  // namespace

ExhaustiveTime::ExhaustiveTime(const Schedule& schedule, TickMachine machine)
    : machine_(std::move(machine)), pages_(static_cast<int>(schedule.tensors.size())) {
  lane_of_page_.resize(schedule.tensors.size(), INT32_MAX);
  AddOps(schedule);
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) FindAlive(schedule, lane);
}

void ExhaustiveTime::AddOps(const Schedule& schedule) {
  for (const ScheduleOp& op : schedule.ops) {
    auto name = std::find(lane_names_.begin(), lane_names_.end(), op.lane);
    const auto lane = static_cast<std::size_t>(name - lane_names_.begin());
    if (name == lane_names_.end()) lane_names_.push_back(op.lane), lanes_.emplace_back();
    Op added{.ticks = static_cast<std::uint8_t>(op.seconds)};
    for (const ScheduleAccess& access : op.accesses) {
      int& owner = lane_of_page_[access.tensor];
      owner = owner == INT32_MAX || owner == static_cast<int>(lane) ? static_cast<int>(lane) : -1;
      const int tier = access.tier.kind == TierKind::kNvme ? 2 : static_cast<int>(access.tier.kind);
      added.accesses.push_back({static_cast<std::uint8_t>(access.tensor),
                                static_cast<std::uint8_t>(tier),
                                access.mode != AccessMode::kRead});
    }
    for (const ScheduleAccess& discard : op.discards) {
      added.discards.push_back(static_cast<std::uint8_t>(discard.tensor));
    }
    lanes_[lane].push_back(std::move(added));
  }
}

/// Walks forwards until the page's fate is known, and backwards until its origin is.
void ExhaustiveTime::FindAlive(const Schedule& schedule, std::size_t lane) {
  std::vector<const ScheduleOp*> ops;
  for (const ScheduleOp& op : schedule.ops) {
    if (op.lane == lane_names_[lane]) ops.push_back(&op);
  }
  const std::size_t count = ops.size();
  const auto is_needed = [&](std::size_t from, std::uint32_t page) {
    for (std::size_t step = 0; step < count; ++step) {
      const ScheduleOp& op = *ops[(from + step) % count];
      const ScheduleAccess* access = Find(op.accesses, page);
      if (access != nullptr) return access->mode != AccessMode::kOverwrite;
      if (Find(op.discards, page) != nullptr) return false;
    }
    return false;
  };
  const auto is_defined = [&](std::size_t from, std::uint32_t page) {
    for (std::size_t step = 1; step <= count; ++step) {
      const ScheduleOp& op = *ops[(from + count - step) % count];
      if (Find(op.discards, page) != nullptr) return false;
      const ScheduleAccess* access = Find(op.accesses, page);
      if (access != nullptr && access->mode != AccessMode::kRead) return true;
    }
    return true;
  };
  for (std::size_t op = 0; op < count; ++op) {
    for (int page = 0; page < pages_; ++page) {
      const auto tensor = static_cast<std::uint32_t>(page);
      lanes_[lane][op].alive.push_back(is_needed(op, tensor) && is_defined(op, tensor));
    }
  }
}

bool ExhaustiveTime::IsAlive(const State& state, int page) const {
  const int lane = lane_of_page_[static_cast<std::size_t>(page)];
  if (lane < 0) return true;
  if (lane == INT32_MAX) return false;
  const auto index = static_cast<std::size_t>(lane);
  return lanes_[index][state.lanes[index].op].alive[static_cast<std::size_t>(page)];
}

bool ExhaustiveTime::IsMoving(const State& state, int page) const {
  for (std::size_t link = 0; link < machine_.links.size(); ++link) {
    for (const Transfer& transfer : {state.in[link], state.out[link]}) {
      if (transfer.left > 0 && transfer.page == page) return true;
    }
  }
  return false;
}

/// A copy is being read by a transfer.
bool ExhaustiveTime::IsSource(const State& state, int page, int tier) const {
  for (std::size_t link = 0; link < machine_.links.size(); ++link) {
    const int above = static_cast<int>(link);
    const Transfer& in = state.in[link];
    const Transfer& out = state.out[link];
    if (in.left > 0 && in.page == page && above + 1 == tier) return true;
    if (out.left > 0 && out.page == page && above == tier) return true;
  }
  return false;
}

bool ExhaustiveTime::IsPinned(const State& state, int page, int tier) const {
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    if (state.lanes[lane].left == 0) continue;
    for (const Access& access : lanes_[lane][state.lanes[lane].op].accesses) {
      if (access.page == page && access.tier == tier) return true;
    }
  }
  return false;
}

bool ExhaustiveTime::IsWritten(const State& state, int page) const {
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    if (state.lanes[lane].left == 0) continue;
    for (const Access& access : lanes_[lane][state.lanes[lane].op].accesses) {
      if (access.page == page && access.writes) return true;
    }
  }
  return false;
}

/// Copies and the targets of transfers hold frames.
int ExhaustiveTime::FreeFrames(const State& state, int tier) const {
  if (tier == static_cast<int>(machine_.frames.size())) return INT32_MAX;
  int free = machine_.frames[static_cast<std::size_t>(tier)];
  for (int page = 0; page < pages_; ++page) {
    free -= (state.copies[static_cast<std::size_t>(page)] & Bit(tier)) != 0;
  }
  const auto link = static_cast<std::size_t>(tier);
  free -= state.in[link].left > 0;
  if (tier > 0) free -= state.out[link - 1].left > 0;
  return free;
}

/// Dead content takes no frame, unless an op has it.
void ExhaustiveTime::ForgetDead(State* state) const {
  for (int page = 0; page < pages_; ++page) {
    if (IsAlive(*state, page)) continue;
    std::uint8_t& copies = state->copies[static_cast<std::size_t>(page)];
    for (int tier = 0; tier <= static_cast<int>(machine_.links.size()); ++tier) {
      if (!IsPinned(*state, page, tier)) copies = copies & static_cast<std::uint8_t>(~Bit(tier));
    }
  }
}

bool ExhaustiveTime::MayStart(const State& state, const Op& op) const {
  std::array<int, kLinksMax + 1> frames{};
  for (const Access& access : op.accesses) {
    const bool there = (state.copies[access.page] & Bit(access.tier)) != 0;
    if (access.writes && IsMoving(state, access.page)) return false;
    // Another lane's op has it: readers may share it.
    for (int tier = 0; tier <= kLinksMax; ++tier) {
      if (access.writes && IsPinned(state, access.page, tier)) return false;
    }
    if (IsWritten(state, access.page)) return false;
    if (!there && IsAlive(state, access.page)) return false;
    frames[access.tier] += there ? 0 : 1;
  }
  for (int tier = 0; tier <= static_cast<int>(machine_.links.size()); ++tier) {
    const int wanted = frames[static_cast<std::size_t>(tier)];
    if (wanted > 0 && wanted > FreeFrames(state, tier)) return false;
  }
  return true;
}

void ExhaustiveTime::StartOps(const State& state, std::vector<State>* next) const {
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    const Op& op = lanes_[lane][state.lanes[lane].op];
    if (state.lanes[lane].left > 0 || !MayStart(state, op)) continue;
    State started = state;
    started.lanes[lane].left = op.ticks;
    for (const Access& access : op.accesses) {
      std::uint8_t& copies = started.copies[access.page];
      if (access.writes) copies = 0;
      copies |= Bit(access.tier);
    }
    next->push_back(started);
  }
}

bool ExhaustiveTime::MayMove(const State& state, int page, int from, int to) const {
  const std::uint8_t copies = state.copies[static_cast<std::size_t>(page)];
  if ((copies & Bit(from)) == 0 || (copies & Bit(to)) != 0) return false;
  if (!IsAlive(state, page) || IsWritten(state, page)) return false;
  return FreeFrames(state, to) > 0;
}

void ExhaustiveTime::StartTransfers(const State& state, std::vector<State>* next) const {
  for (std::size_t link = 0; link < machine_.links.size(); ++link) {
    const TickMachine::Link& facts = machine_.links[link];
    const bool in_busy = state.in[link].left > 0;
    const bool out_busy = state.out[link].left > 0;
    const int above = static_cast<int>(link);
    for (int page = 0; page < pages_; ++page) {
      const auto moved = static_cast<std::uint8_t>(page);
      if (!in_busy && !(facts.half && out_busy) && MayMove(state, page, above + 1, above)) {
        next->push_back(state);
        next->back().in[link] = {moved, static_cast<std::uint8_t>(facts.in_ticks)};
      }
      if (!out_busy && !(facts.half && in_busy) && MayMove(state, page, above, above + 1)) {
        next->push_back(state);
        next->back().out[link] = {moved, static_cast<std::uint8_t>(facts.out_ticks)};
      }
    }
  }
}

/// Frames that a waiting transfer or op may need, at most: one for a transfer, the missing ones for
/// an op. A drop of more frames never helps.
int ExhaustiveTime::FramesWanted(const State& state, int tier) const {
  int most = 1;
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    if (state.lanes[lane].left > 0) continue;
    int wanted = 0;
    for (const Access& access : lanes_[lane][state.lanes[lane].op].accesses) {
      const bool there = (state.copies[access.page] & Bit(tier)) != 0;
      if (access.tier == tier && !there) ++wanted;
    }
    most = std::max(most, wanted);
  }
  return most;
}

void ExhaustiveTime::Drop(const State& state, std::vector<State>* next) const {
  for (int tier = 0; tier < static_cast<int>(machine_.frames.size()); ++tier) {
    if (FreeFrames(state, tier) >= FramesWanted(state, tier)) continue;
    for (int page = 0; page < pages_; ++page) {
      const std::uint8_t copies = state.copies[static_cast<std::size_t>(page)];
      if ((copies & Bit(tier)) == 0 || std::popcount(copies) < 2) continue;
      if (IsSource(state, page, tier) || IsPinned(state, page, tier)) continue;
      next->push_back(state);
      next->back().copies[static_cast<std::size_t>(page)] ^= Bit(tier);
    }
  }
}

void ExhaustiveTime::EndTransfer(Transfer* transfer, int to, State* state) const {
  if (transfer->left == 0 || --transfer->left > 0) return;
  if (IsAlive(*state, transfer->page)) state->copies[transfer->page] |= Bit(to);
  transfer->page = 0;
}

void ExhaustiveTime::EndOp(std::size_t lane, State* state) const {
  Lane& at = state->lanes[lane];
  if (at.left == 0 || --at.left > 0) return;
  for (const std::uint8_t page : lanes_[lane][at.op].discards) state->copies[page] = 0;
  if (++at.op < lanes_[lane].size()) return;
  at.op = 0;
  ++at.iteration;
}

ExhaustiveTime::State ExhaustiveTime::Tick(State state) const {
  for (std::size_t link = 0; link < machine_.links.size(); ++link) {
    EndTransfer(&state.in[link], static_cast<int>(link), &state);
    EndTransfer(&state.out[link], static_cast<int>(link) + 1, &state);
  }
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) EndOp(lane, &state);
  ForgetDead(&state);
  return state;
}

std::vector<ExhaustiveTime::State> ExhaustiveTime::FirstStates() const {
  std::vector<State> states{State{}};
  const int copies_end = 1 << (machine_.links.size() + 1);
  for (int page = 0; page < pages_; ++page) {
    if (!IsAlive(State{}, page)) continue;
    std::vector<State> more;
    for (const State& state : states) {
      for (int copies = 1; copies < copies_end; ++copies) {
        more.push_back(state);
        more.back().copies[static_cast<std::size_t>(page)] = static_cast<std::uint8_t>(copies);
      }
    }
    states = std::move(more);
  }
  std::erase_if(states, [&](const State& state) {
    for (int tier = 0; tier < static_cast<int>(machine_.frames.size()); ++tier) {
      if (FreeFrames(state, tier) < 0) return true;
    }
    return false;
  });
  return states;
}

}  // namespace sluice::analysis
