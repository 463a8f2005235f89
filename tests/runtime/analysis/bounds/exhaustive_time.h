#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sluice/schedule.h"

namespace sluice::analysis {

/// A machine whose times are whole ticks.
struct TickMachine {
  /// Frames of each tier but the last, which holds everything. Tier 0 is hbm, then dram, nvme.
  std::vector<int> frames;
  /// Ticks for one page. `half`: one transfer at a time, else one in each direction.
  struct Link {
    int in_ticks = 1;
    int out_ticks = 1;
    bool half = false;
  };
  std::vector<Link> links;
};

/// The least time of a tiny schedule. The search tries, at every tick, every op that may start,
/// every transfer and every drop. It shares nothing with the code under test.
/// - Tensors are one page each, in segments of their own, numbered alike.
/// - An op names a tensor once, and takes whole ticks, one at least.
/// - A page that several lanes touch is never overwritten nor discarded.
class ExhaustiveTime {
 public:
  ExhaustiveTime(const Schedule& schedule, TickMachine machine);

  /// Ticks of 1, 2 ... `iterations` iterations, whatever is in the tiers at first. Each lane starts
  /// its iterations without waiting for the others. Empty if the search sees more than `states_max`
  /// states.
  std::vector<int> LeastTicks(int iterations, std::size_t states_max) const;

 private:
  static constexpr int kPagesMax = 6;
  static constexpr int kLinksMax = 2;
  static constexpr int kLanesMax = 2;

  struct Transfer {
    std::uint8_t page = 0;
    std::uint8_t left = 0;  ///< ticks; 0: idle
  };
  struct Lane {
    std::uint8_t op = 0;
    std::uint8_t left = 0;  ///< ticks of the op that runs; 0: it waits
    std::uint8_t iteration = 0;
  };
  struct State {
    /// Tiers with a valid copy of each page, one bit per tier.
    std::array<std::uint8_t, kPagesMax> copies{};
    /// Transfers in and out, by link.
    std::array<Transfer, kLinksMax> in{};
    std::array<Transfer, kLinksMax> out{};
    std::array<Lane, kLanesMax> lanes{};
  };
  struct Access {
    std::uint8_t page = 0;
    std::uint8_t tier = 0;
    bool writes = false;
  };
  struct Op {
    std::uint8_t ticks = 0;
    std::vector<Access> accesses;
    std::vector<std::uint8_t> discards;
    /// Whether each page has content before the op that is needed then or later.
    std::vector<bool> alive;
  };
  class Search;

  void AddOps(const Schedule& schedule);
  void FindAlive(const Schedule& schedule, std::size_t lane);
  bool IsAlive(const State& state, int page) const;
  bool IsMoving(const State& state, int page) const;
  bool IsSource(const State& state, int page, int tier) const;
  bool IsPinned(const State& state, int page, int tier) const;
  bool IsWritten(const State& state, int page) const;
  int FreeFrames(const State& state, int tier) const;
  void ForgetDead(State* state) const;
  void StartOps(const State& state, std::vector<State>* next) const;
  void StartTransfers(const State& state, std::vector<State>* next) const;
  void Drop(const State& state, std::vector<State>* next) const;
  bool MayStart(const State& state, const Op& op) const;
  bool MayMove(const State& state, int page, int from, int to) const;
  int FramesWanted(const State& state, int tier) const;
  State Tick(State state) const;
  void EndTransfer(Transfer* transfer, int to, State* state) const;
  void EndOp(std::size_t lane, State* state) const;
  std::vector<State> FirstStates() const;

  const TickMachine machine_;
  int pages_ = 0;
  std::vector<std::string> lane_names_;
  std::vector<std::vector<Op>> lanes_;
  /// Lane that alone touches each page; -1: several do.
  std::vector<int> lane_of_page_;
};

}  // namespace sluice::analysis
