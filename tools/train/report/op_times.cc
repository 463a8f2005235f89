#include "tools/train/report/op_times.h"

#include <algorithm>
#include <vector>

#include "tools/support/median.h"

namespace sluice::tools {
namespace {

/// Calls `use` with each op, its name and how many of that name came before.
template <typename AnySchedule, typename Use>
void ForEachOp(AnySchedule& schedule, const Use& use) {
  absl::flat_hash_map<std::string, int> seen;
  for (auto& op : schedule.ops) use(op, std::pair(op.name, seen[op.name]++));
}

}  // namespace

void OpTimes::Add(const Schedule& iteration) {
  Ops& ops = keys_[iteration.key];
  ForEachOp(iteration, [&](const ScheduleOp& op, const OpPlace& place) {
    std::deque<double>& seconds = ops[place];
    seconds.push_back(op.seconds);
    if (seconds.size() > kIterationsMax) seconds.pop_front();
  });
}

std::size_t OpTimes::iterations(const std::string& key) const {
  const auto found = keys_.find(key);
  if (found == keys_.end()) return 0;
  std::size_t most = 0;
  for (const auto& [place, seconds] : found->second) most = std::max(most, seconds.size());
  return most;
}

template <typename Figure>
void OpTimes::Set(const Figure& figure, Schedule* schedule) const {
  const auto key = keys_.find(schedule->key);
  if (key == keys_.end()) return;
  ForEachOp(*schedule, [&](ScheduleOp& op, const OpPlace& place) {
    const auto found = key->second.find(place);
    if (found != key->second.end()) op.seconds = figure(found->second);
  });
}

void OpTimes::SetLeast(Schedule* schedule) const {
  Set([](const auto& seconds) { return *std::min_element(seconds.begin(), seconds.end()); },
      schedule);
}

void OpTimes::SetMedian(Schedule* schedule) const {
  Set([](const auto& seconds) { return Median({seconds.begin(), seconds.end()}); }, schedule);
}

}  // namespace sluice::tools
