#include "io/drive_balance.h"

#include <algorithm>
#include <cmath>

namespace sluice::io {
namespace {

constexpr int kWindowsBetter = 16;
constexpr int kWindowsMax = 4096;

double CapacityOf(const DriveBalance::Load& load) {
  return static_cast<double>(load.staying) + load.leaving + load.room;
}

}  // namespace

DriveBalance::DriveBalance(std::size_t drives, SlotIndex pages, std::size_t window)
    : pages_(pages) {
  for (std::size_t i = 0; i < drives; ++i) drives_.push_back({.slowness = DriveSlowness(window)});
}

bool DriveBalance::AllWell() const {
  return std::all_of(drives_.begin(), drives_.end(), [](const Drive& drive) {
    return drive.slow == 1 && drive.slowness.factor() < DriveSlowness::kWell;
  });
}

void DriveBalance::NoteWrite(std::uint32_t number) {
  if (!AllWell()) return;
  writes_ = std::min<std::uint64_t>(writes_ + 1, pages_);
  for (std::uint32_t i = 0; i < drives_.size(); ++i) {
    drives_[i].part += ((i == number ? 1 : 0) - drives_[i].part) / static_cast<double>(writes_);
  }
}

bool DriveBalance::NoteRead(std::uint32_t drive, std::uint32_t ahead, double seconds) {
  if (!drives_[drive].slowness.NoteRead(ahead, seconds)) return false;
  ++drives_[drive].windows;
  return true;
}

std::optional<DriveBalance::Move> DriveBalance::Weigh(std::uint32_t number,
                                                      std::span<const Load> loads) {
  if (loads[number].fenced) return std::nullopt;
  Drive& drive = drives_[number];
  const Beside beside = FactorBeside(number, loads);
  Count(number, beside);
  if (drive.windows_slow >= drive.windows_needed && beside.factor >= 2 * drive.slow) {
    drive.slow = beside.factor;
    return Plan(number, false, loads);
  }
  if (drive.windows_better >= kWindowsBetter) {
    drive.slow = beside.factor < DriveSlowness::kWell ? 1 : beside.factor;
    drive.windows_better = 0;
    drive.windows_needed = std::min(2 * drive.windows_needed, kWindowsMax);
    return Plan(number, true, loads);
  }
  const bool far_too_many =
      drive.slow > 1 && loads[number].staying > 2 * Targets(loads)[number] + 1;
  return far_too_many ? Plan(number, false, loads) : std::nullopt;
}

void DriveBalance::Count(std::uint32_t number, const Beside& beside) {
  Drive& drive = drives_[number];
  const bool slow = beside.others_known && beside.factor >= DriveSlowness::kSlow;
  const bool better =
      drive.slow > 1 && beside.factor < std::max(drive.slow / 2, DriveSlowness::kWell);
  drive.windows_slow = slow ? std::min(drive.windows_slow + 1, kWindowsMax) : 0;
  drive.windows_better = better ? drive.windows_better + 1 : 0;
  if (drive.slowness.factor() < DriveSlowness::kSlow) return drive.windows_before.clear();
  if (!drive.windows_before.empty()) return;
  for (const Drive& each : drives_) drive.windows_before.push_back(each.windows);
}

/// By which the drive is slower than the slowest of the others that have been read since it is.
DriveBalance::Beside DriveBalance::FactorBeside(std::uint32_t number,
                                                std::span<const Load> loads) const {
  const Drive& drive = drives_[number];
  Beside beside;
  double others = 1;
  for (std::uint32_t i = 0; i < loads.size() && !drive.windows_before.empty(); ++i) {
    const bool seen = drives_[i].windows > drive.windows_before[i] + 1;
    if (i == number || loads[i].fenced || !seen) continue;
    others = std::max(others, drives_[i].slowness.factor() / drives_[i].slow);
    beside.others_known = true;
  }
  beside.factor = drive.slowness.factor() / others;
  return beside;
}

/// How many pages each drive should have: one that is full has what it can, and the others the
/// rest.
std::vector<double> DriveBalance::Targets(std::span<const Load> loads) const {
  std::vector<double> targets(loads.size());
  std::vector<double> weights;
  double pages = 0;
  for (std::uint32_t i = 0; i < loads.size(); ++i) {
    weights.push_back(loads[i].fenced ? 0 : drives_[i].part / drives_[i].slow);
    if (!loads[i].fenced) pages += static_cast<double>(loads[i].staying) + loads[i].leaving;
  }
  for (bool fits = false; !fits;) {
    double weight = 0;
    for (const double each : weights) weight += each;
    if (weight == 0) break;
    fits = true;
    const double rest = pages;
    for (std::uint32_t i = 0; i < loads.size(); ++i) {
      if (weights[i] == 0) continue;
      targets[i] = rest * weights[i] / weight;
      if (targets[i] <= CapacityOf(loads[i])) continue;
      targets[i] = CapacityOf(loads[i]);
      pages -= targets[i];
      weights[i] = 0;
      fits = false;
    }
  }
  return targets;
}

/// None where parts are not known.
std::optional<DriveBalance::Move> DriveBalance::Plan(std::uint32_t number,
                                                     bool better,
                                                     std::span<const Load> loads) const {
  if (writes_ == 0) return std::nullopt;
  Move move{.drive = number,
            .factor = drives_[number].slowness.factor(),
            .better = better,
            .leave = std::vector<SlotIndex>(loads.size()),
            .come = std::vector<SlotIndex>(loads.size())};
  const std::vector<double> targets = Targets(loads);
  for (std::uint32_t i = 0; i < loads.size(); ++i) {
    if (loads[i].fenced) continue;
    const double more = targets[i] - loads[i].staying;
    (more < 0 ? move.leave : move.come)[i] = static_cast<SlotIndex>(std::abs(more));
  }
  return move;
}

}  // namespace sluice::io
