#include "runtime/sim/simulator/path_model.h"

#include <algorithm>

#include "base/check.h"

namespace sluice::sim {

PathModel::PathModel(const MachinePath& path) : latency_(path.latency_s), next_(kNever) {
  SLUICE_CHECK(path.in_bytes_per_s > 0 && path.out_bytes_per_s > 0, "a path moves bytes");
  lanes_[0].rate = path.in_bytes_per_s;
  lanes_[1].rate = path.out_bytes_per_s;
  for (Lane& lane : lanes_) lane.setup = path.serial ? path.latency_s * lane.rate : 0;
  if (path.both_bytes_per_s > 0) {
    slowdown_ = std::min(1.0, path.both_bytes_per_s / (lanes_[0].rate + lanes_[1].rate));
  }
}

void PathModel::Start(core::LinkDirection direction,
                      core::TaskNumber task,
                      std::uint64_t bytes,
                      double now) {
  PassTime(now);
  Lane& into = lane(direction);
  const double occupied = static_cast<double>(bytes) + into.setup;
  if (!into.queue.empty()) into.behind += occupied;
  into.queue.push_back({task, bytes, occupied, now});
  into.bytes += bytes;
  FindNext();
}

PathModel::Finished PathModel::Finish() {
  SLUICE_CHECK(next_ < kNever, "a transfer is under way");
  PassTime(next_);
  Lane& from = lanes_[next_lane_];
  const bool paid = from.setup > 0;
  const QueuedPage& first = from.queue.front();
  const Finished finished{.transfer = {.task = first.task,
                                       .direction = static_cast<core::LinkDirection>(next_lane_),
                                       .bytes = first.bytes,
                                       .begin_s = first.begin_s,
                                       .end_s = now_},
                          .complete_s = now_ + (paid ? 0 : latency_)};
  from.queue.pop_front();
  if (!from.queue.empty()) {
    from.queue.front().begin_s = now_;
    from.behind -= from.queue.front().bytes_left;
  }
  FindNext();
  return finished;
}

/// Seconds left at full rate, with a transfer of so many bytes behind all others.
double PathModel::SecondsLeft(core::LinkDirection direction, std::uint64_t more) const {
  const Lane& of = lane(direction);
  double bytes = more > 0 ? static_cast<double>(more) + of.setup : 0;
  if (!of.queue.empty()) bytes += std::max(0.0, of.queue.front().bytes_left) + of.behind;
  return bytes / of.rate;
}

/// Both directions are slowed until one of them has nothing left.
double PathModel::WouldComplete(core::LinkDirection direction, std::uint64_t bytes) const {
  const bool in = direction == core::LinkDirection::kIn;
  const double own = SecondsLeft(direction, bytes);
  const double other = SecondsLeft(in ? core::LinkDirection::kOut : core::LinkDirection::kIn, 0);
  const bool paid = lane(direction).setup > 0;
  return now_ + own + std::min(own, other) * (1 / slowdown_ - 1) + (paid ? 0 : latency_);
}

/// Share of its rate that each direction has now.
double PathModel::Share() const {
  return lanes_[0].queue.empty() || lanes_[1].queue.empty() ? 1 : slowdown_;
}

void PathModel::PassTime(double now) {
  const double share = Share();
  for (Lane& lane : lanes_) {
    if (lane.queue.empty()) continue;
    lane.busy += now - now_;
    lane.queue.front().bytes_left -= (now - now_) * lane.rate * share;
  }
  now_ = now;
}

void PathModel::FindNext() {
  const double share = Share();
  next_ = kNever;
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    if (lanes_[i].queue.empty()) continue;
    const double left = std::max(0.0, lanes_[i].queue.front().bytes_left);
    const double at = now_ + left / (lanes_[i].rate * share);
    if (at < next_) {
      next_ = at;
      next_lane_ = i;
    }
  }
}

}  // namespace sluice::sim
