#include "runtime/sim/simulator/link_model.h"

#include <algorithm>

#include "base/check.h"

namespace sluice::sim {
namespace {

/// Remembers that what is at `place` has gone over `path`.
void Remember(std::size_t path, std::size_t place, std::vector<std::uint8_t>* paths) {
  if (place >= paths->size()) paths->resize(place + 1);
  (*paths)[place] = static_cast<std::uint8_t>(path);
}

}  // namespace

LinkModel::LinkModel(const MachineLink& link, bool drives)
    : drives_(drives && link.paths.size() > 1), pages_placed_(link.paths.size()) {
  SLUICE_CHECK(!link.paths.empty() && link.paths.size() <= MachineLink::kPathsMax,
               "a link has paths, and no more than can be told apart");
  for (const MachinePath& path : link.paths) {
    paths_.emplace_back(path);
    read_rates_.push_back(path.in_bytes_per_s);
  }
}

/// The next page goes to the drive that would have read its pages first.
void LinkModel::PlaceInFile(PageIndex first, std::uint32_t pages) {
  if (!drives_) return;
  for (PageIndex page = first; page < first + pages; ++page) {
    std::size_t best = 0;
    const auto seconds = [this](std::size_t path) {
      return static_cast<double>(pages_placed_[path] + 1) / read_rates_[path];
    };
    for (std::size_t i = 1; i < paths_.size(); ++i) {
      if (seconds(i) < seconds(best)) best = i;
    }
    ++pages_placed_[best];
    Remember(best, page, &path_of_page_);
  }
}

std::size_t LinkModel::FirstToComplete(const SimOrder& order) const {
  std::size_t best = 0;
  double best_s = PathModel::kNever;
  for (std::size_t i = 0; i < paths_.size(); ++i) {
    const double at = paths_[i].WouldComplete(order.direction, order.bytes);
    if (at >= best_s) continue;
    best = i;
    best_s = at;
  }
  return best;
}

std::size_t LinkModel::Choose(const SimOrder& order) const {
  if (!drives_ || order.direction == core::LinkDirection::kOut) return FirstToComplete(order);
  const std::vector<std::uint8_t>& paths = order.from_file ? path_of_page_ : path_of_frame_;
  SLUICE_CHECK(order.place < paths.size(), "what comes from a drive was put there");
  return paths[order.place];
}

void LinkModel::Start(const SimOrder& order, double now) {
  std::size_t path = 0;
  if (paths_.size() > 1) {
    PassTime(now);
    path = Choose(order);
  }
  if (drives_ && order.direction == core::LinkDirection::kOut) {
    Remember(path, order.place, &path_of_frame_);
  }
  paths_[path].Start(order.direction, order.task, order.bytes, now);
}

std::size_t LinkModel::NextPath() const {
  std::size_t first = 0;
  for (std::size_t i = 1; i < paths_.size(); ++i) {
    if (paths_[i].next() < paths_[first].next()) first = i;
  }
  return first;
}

PathModel::Finished LinkModel::Finish() {
  const std::size_t path = NextPath();
  PathModel::Finished finished = paths_[path].Finish();
  finished.transfer.path = path;
  return finished;
}

void LinkModel::PassTime(double now) {
  for (PathModel& path : paths_) path.PassTime(now);
}

}  // namespace sluice::sim
