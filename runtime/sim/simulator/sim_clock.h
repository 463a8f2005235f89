#pragma once

#include <cstdint>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "runtime/sim/simulator/link_model.h"
#include "runtime/sim/simulator/machine.h"
#include "runtime/sim/simulator/sim_observer.h"

namespace sluice::sim {

/// Virtual time: transfers, ops and tasks under way, and the one that ends next.
class SimClock {
 public:
  /// Something that ended.
  struct Moment {
    bool ends_op = false;  ///< true if it ends an op; else it completes a task
    std::uint64_t number = 0;
  };

  /// `observer` may be null; otherwise it outlives the clock.
  SimClock(const Machine& machine, SimObserver* observer);

  double now() const { return now_; }
  void StartOp(std::uint32_t op, double seconds) { Push(now_ + seconds, {true, op}); }
  /// Calls LinkModel::PlaceInFile of the lowest link.
  void PlaceInFile(PageIndex first, std::uint32_t pages) {
    links_.back().PlaceInFile(first, pages);
  }
  void Send(std::size_t link, const SimOrder& order) { links_[link].Start(order, now_); }
  /// Goes to the time of the next end, and returns it; none when nothing is under way.
  std::optional<Moment> Next();
  /// The links, up to now.
  const std::vector<LinkModel>& links();

 private:
  /// An end with its time. At equal times the one that came first in the program comes first.
  struct Timed {
    double seconds = 0;
    std::uint64_t order = 0;
    Moment moment;
    friend bool operator>(const Timed& a, const Timed& b) {
      return std::pair(a.seconds, a.order) > std::pair(b.seconds, b.order);
    }
  };

  void Push(double seconds, Moment moment) { queue_.push({seconds, order_++, moment}); }
  std::size_t FirstLink() const;
  void TakeFrom(std::size_t link);

  SimObserver* const observer_;
  double now_ = 0;
  std::uint64_t order_ = 0;
  std::priority_queue<Timed, std::vector<Timed>, std::greater<>> queue_;
  std::vector<LinkModel> links_;
};

}  // namespace sluice::sim
