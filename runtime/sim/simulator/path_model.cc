#include "runtime/sim/simulator/path_model.h"

#include <algorithm>

#include "base/check.h"

namespace sluice::sim {

PathModel::PathModel(const MachinePath& path) : latency_(path.latency_s), next_(kNever) {
  SLUICE_CHECK(path.in_bytes_per_s > 0 && path.out_bytes_per_s > 0, "a path moves bytes");
  ways_[0].rate = path.in_bytes_per_s;
  ways_[1].rate = path.out_bytes_per_s;
  for (OneWay& one : ways_) one.setup = path.serial ? path.latency_s * one.rate : 0;
  if (path.both_bytes_per_s > 0) {
    slowdown_ = std::min(1.0, path.both_bytes_per_s / (ways_[0].rate + ways_[1].rate));
  }
}

void PathModel::Start(core::LinkDirection direction,
                      core::TaskNumber task,
                      std::uint64_t bytes,
                      double now) {
  PassTime(now);
  OneWay& into = way(direction);
  const double occupied = static_cast<double>(bytes) + into.setup;
  if (!into.queue.empty()) into.behind += occupied;
  into.queue.push_back({task, bytes, occupied, now});
  into.bytes += bytes;
  FindNext();
}

PathModel::Finished PathModel::Finish() {
  SLUICE_CHECK(next_ < kNever, "a transfer is under way");
  PassTime(next_);
  OneWay& from = ways_[next_way_];
  const bool paid = from.setup > 0;
  const QueuedPage& first = from.queue.front();
  const Finished finished{.transfer = {.task = first.task,
                                       .direction = static_cast<core::LinkDirection>(next_way_),
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
  const OneWay& of = way(direction);
  double bytes = more > 0 ? static_cast<double>(more) + of.setup : 0;
  if (!of.queue.empty()) bytes += std::max(0.0, of.queue.front().bytes_left) + of.behind;
  return bytes / of.rate;
}

/// Both directions are slowed until one of them has nothing left.
double PathModel::WouldComplete(core::LinkDirection direction, std::uint64_t bytes) const {
  const bool in = direction == core::LinkDirection::kIn;
  const double own = SecondsLeft(direction, bytes);
  const double other = SecondsLeft(in ? core::LinkDirection::kOut : core::LinkDirection::kIn, 0);
  const bool paid = way(direction).setup > 0;
  return now_ + own + std::min(own, other) * (1 / slowdown_ - 1) + (paid ? 0 : latency_);
}

/// Share of its rate that each direction has now.
double PathModel::Share() const {
  return ways_[0].queue.empty() || ways_[1].queue.empty() ? 1 : slowdown_;
}

void PathModel::PassTime(double now) {
  const double share = Share();
  for (OneWay& one : ways_) {
    if (one.queue.empty()) continue;
    one.busy += now - now_;
    one.queue.front().bytes_left -= (now - now_) * one.rate * share;
  }
  now_ = now;
}

void PathModel::FindNext() {
  const double share = Share();
  next_ = kNever;
  for (std::size_t i = 0; i < ways_.size(); ++i) {
    if (ways_[i].queue.empty()) continue;
    const double left = std::max(0.0, ways_[i].queue.front().bytes_left);
    const double at = now_ + left / (ways_[i].rate * share);
    if (at < next_) {
      next_ = at;
      next_way_ = i;
    }
  }
}

}  // namespace sluice::sim
