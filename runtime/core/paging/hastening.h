#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "runtime/core/state/page.h"

namespace sluice::core {

struct Machine;

/// Page-outs in flight, and those of them that somebody has come to wait for. Threads: externally
/// synchronised.
class Hastening {
 public:
  explicit Hastening(Machine& machine) : m_(machine) {}

  /// A frame that a ticket wants and did not get in this pump.
  struct Shortage {
    TierIndex tier = 0;
    Claim claim;
    bool no_victim = false;  ///< true if no page of the tier can be made to leave
  };

  void NoteStart(TaskNumber number, const Task& task);
  void NoteEnd(TaskNumber number, const Task& task);
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
  void HastenForWriter(PageIndex index);
  void HastenForRoom();

 private:
  void HastenForRoomIn(TierIndex tier);
  bool MakesRoom(const Task& task, const Shortage& shortage) const;
  void Hasten(TaskNumber number);

  Machine& m_;
  std::set<TaskNumber> hurried_;     ///< page-outs in flight that a ticket is known to wait for
  std::set<TaskNumber> unhurried_;   ///< page-outs in flight that no ticket is known to wait for
  std::vector<Shortage> shortages_;  ///< shortages of tickets, per pump
};

}  // namespace sluice::core
