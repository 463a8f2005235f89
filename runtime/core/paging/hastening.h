#pragma once

#include <cstddef>
#include <set>
#include <vector>

#include "runtime/core/state/page.h"

namespace sluice::core {

struct ResidencyMachine;

/// Page-outs in flight, and those of them that somebody has come to wait for. Threads: externally
/// synchronised.
class Hastening {
 public:
  explicit Hastening(ResidencyMachine& machine) : m_(machine) {}

  /// A frame that a ticket wants and did not get in this round.
  struct Shortage {
    TierIndex tier = 0;
    Claim claim;
    bool no_victim = false;  ///< true if no page of the tier can be made to leave
  };

  /// Notes a copy that begins; only page-outs count.
  void NoteStart(TaskNumber number, const Task& task);
  /// Notes a task that has ended.
  void NoteEnd(TaskNumber number, const Task& task);
  /// Remembers what a ticket did not get. Costs nothing while there is nothing to hasten.
  void NoteShortage(TierIndex tier, const Claim& claim);
  std::size_t shortages() const { return shortages_.size(); }
  /// Forgets all shortages but the first `count`.
  void KeepShortages(std::size_t count) { shortages_.resize(count); }
  /// Whether every page-out in flight is one that a ticket is known to wait for.
  bool nothing_to_hasten() const { return unhurried_.empty(); }
  std::size_t page_outs() const { return hurried_.size() + unhurried_.size(); }
  bool Lists(TaskNumber number, bool urgent) const {
    return (urgent ? hurried_ : unhurried_).contains(number);
  }
  /// Hastens the page's copies, which a write lease waits for (I4).
  void HastenForWriter(PageIndex index);
  /// Hastens page-outs after the last round. A ticket that lacks a frame now waits for one of those
  /// in flight.
  void HastenForRoom();

 private:
  void HastenForRoomIn(TierIndex tier);
  bool MakesRoom(const Task& task, const Shortage& shortage) const;
  void Hasten(TaskNumber number);

  ResidencyMachine& m_;
  std::set<TaskNumber> hurried_;     ///< page-outs in flight that a ticket is known to wait for
  std::set<TaskNumber> unhurried_;   ///< page-outs in flight that no ticket is known to wait for
  std::vector<Shortage> shortages_;  ///< shortages of tickets, per round
};

}  // namespace sluice::core
