#include "runtime/sim/link_model.h"

#include <algorithm>

#include "base/check.h"

namespace sluice::sim {

LinkModel::LinkModel(const MachineLink& link) : latency_(link.latency_s), next_(kNever) {
  SLUICE_CHECK(link.in_bytes_per_s > 0 && link.out_bytes_per_s > 0, "a link moves bytes");
  lanes_[0].rate = link.in_bytes_per_s;
  lanes_[1].rate = link.out_bytes_per_s;
  for (Lane& lane : lanes_) lane.setup = link.serial ? link.latency_s * lane.rate : 0;
  if (link.both_bytes_per_s > 0) {
    slowdown_ = std::min(1.0, link.both_bytes_per_s / (lanes_[0].rate + lanes_[1].rate));
  }
}

void LinkModel::Start(core::Direction direction,
                      core::TaskNumber task,
                      std::uint64_t bytes,
                      double now) {
  PassTime(now);
  Lane& into = lane(direction);
  into.queue.push_back({task, bytes, static_cast<double>(bytes) + into.setup, now});
  into.bytes += bytes;
  FindNext();
}

LinkModel::Finished LinkModel::Finish() {
  SLUICE_CHECK(next_ < kNever, "a transfer is under way");
  PassTime(next_);
  Lane& from = lanes_[next_lane_];
  const bool paid = from.setup > 0;
  const Transfer& first = from.queue.front();
  const Finished finished{.transfer = {.task = first.task,
                                       .direction = static_cast<core::Direction>(next_lane_),
                                       .bytes = first.bytes,
                                       .begin_s = first.begin_s,
                                       .end_s = now_},
                          .complete_s = now_ + (paid ? 0 : latency_)};
  from.queue.pop_front();
  if (!from.queue.empty()) from.queue.front().begin_s = now_;
  FindNext();
  return finished;
}

/// What of its rate each direction has now.
double LinkModel::Share() const {
  return lanes_[0].queue.empty() || lanes_[1].queue.empty() ? 1 : slowdown_;
}

void LinkModel::PassTime(double now) {
  const double share = Share();
  for (Lane& lane : lanes_) {
    if (lane.queue.empty()) continue;
    lane.busy += now - now_;
    lane.queue.front().bytes_left -= (now - now_) * lane.rate * share;
  }
  now_ = now;
}

void LinkModel::FindNext() {
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
