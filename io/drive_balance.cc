#include "io/drive_balance.h"

#include <algorithm>

namespace sluice::io {
namespace {

constexpr int kWindowsBetter = 16;
constexpr int kWindowsMax = 4096;
/// Pages of others may take the places of those that were to come back.
constexpr int kTimesSeenTo = 4;
/// Of its part: nearer than that a drive has it.
constexpr double kNear = 1.0 / 32;

double PagesOf(const DriveBalance::Load& load) {
  return static_cast<double>(load.staying) + load.leaving;
}

double CapacityOf(const DriveBalance::Load& load) { return PagesOf(load) + load.room; }

bool AnythingMoves(std::span<const DriveBalance::Load> loads) {
  return std::any_of(loads.begin(), loads.end(), [](const DriveBalance::Load& load) {
    return load.leaving > 0 && !load.fenced;
  });
}

}  // namespace

DriveBalance::DriveBalance(std::size_t drives, std::size_t window) {
  for (std::size_t i = 0; i < drives; ++i) drives_.push_back({.slowness = DriveSlowness(window)});
}

bool DriveBalance::NoteRead(std::uint32_t drive, std::uint32_t ahead, double seconds) {
  if (!drives_[drive].slowness.NoteRead(ahead, seconds)) return false;
  ++drives_[drive].windows;
  return true;
}

std::optional<DriveBalance::Move> DriveBalance::Weigh(std::uint32_t number,
                                                      std::span<const Load> loads) {
  if (loads[number].fenced) return std::nullopt;
  const Drive& drive = drives_[number];
  const Beside beside = FactorBeside(number, loads);
  Count(number, beside);
  LearnParts(loads);
  if (drive.windows_slow >= drive.windows_needed) return Slower(number, loads);
  if (drive.windows_better >= kWindowsBetter) return Better(number, beside.factor, loads);
  return SeeTo(number, beside.factor, loads);
}

void DriveBalance::Count(std::uint32_t number, const Beside& beside) {
  Drive& drive = drives_[number];
  const double from = drive.slow > 1 ? 2 * drive.slow : DriveSlowness::kSlow;
  const double below = std::max(drive.slow / 2, DriveSlowness::kWell);
  const bool slow = beside.others_known && beside.factor >= from;
  const bool better = drive.slow > 1 && beside.factor < below;
  drive.least = drive.windows_slow > 0 ? std::min(drive.least, beside.factor) : beside.factor;
  drive.windows_slow = slow ? drive.windows_slow + 1 : 0;
  drive.windows_better = better ? drive.windows_better + 1 : 0;
  if (drive.slowness.factor() < DriveSlowness::kSlow) return drive.windows_before.clear();
  if (!drive.windows_before.empty()) return;
  for (const Drive& each : drives_) drive.windows_before.push_back(each.windows);
}

std::optional<DriveBalance::Move> DriveBalance::Slower(std::uint32_t number,
                                                       std::span<const Load> loads) {
  Drive& drive = drives_[number];
  drive.slow = drive.least;
  drive.windows_slow = 0;
  drive.owed = 0;
  return Plan(number, false, loads);
}

std::optional<DriveBalance::Move> DriveBalance::Better(std::uint32_t number,
                                                       double factor,
                                                       std::span<const Load> loads) {
  Drive& drive = drives_[number];
  drive.slow = factor < DriveSlowness::kWell ? 1 : factor;
  drive.windows_better = 0;
  drive.windows_needed = std::min(2 * drive.windows_needed, kWindowsMax);
  drive.owed = kTimesSeenTo;
  return Plan(number, true, loads);
}

/// What was to happen may not have: there was no room, or writes of other pages came between.
std::optional<DriveBalance::Move> DriveBalance::SeeTo(std::uint32_t number,
                                                      double factor,
                                                      std::span<const Load> loads) {
  Drive& drive = drives_[number];
  const double target = Targets(loads)[number];
  const double pages = loads[number].staying;
  if (drive.slow > 1 && factor >= DriveSlowness::kSlow && pages > 2 * target + 1) {
    return Plan(number, false, loads);
  }
  if (drive.owed == 0 || AnythingMoves(loads)) return std::nullopt;
  drive.owed = pages < target * (1 - kNear) - 1 ? drive.owed - 1 : 0;
  return drive.owed > 0 ? Plan(number, true, loads) : std::nullopt;
}

void DriveBalance::LearnParts(std::span<const Load> loads) {
  if (!written_ || AnythingMoves(loads)) return;
  double pages = 0;
  for (std::uint32_t i = 0; i < loads.size(); ++i) {
    if (loads[i].fenced) continue;
    const Drive& drive = drives_[i];
    const bool well = drive.slow == 1 && drive.slowness.factor() < DriveSlowness::kWell;
    if (!well || drive.owed > 0) return;
    pages += loads[i].staying;
  }
  if (pages == 0) return;
  for (std::uint32_t i = 0; i < loads.size(); ++i) drives_[i].part = loads[i].staying / pages;
  written_ = false;
  known_ = true;
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
    if (!loads[i].fenced) pages += PagesOf(loads[i]);
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

/// None where parts are not known. Of a drive that has become slow pages leave only, and of those
/// that are well none does for it.
std::optional<DriveBalance::Move> DriveBalance::Plan(std::uint32_t number,
                                                     bool better,
                                                     std::span<const Load> loads) const {
  if (!known_) return std::nullopt;
  Move move{.drive = number,
            .factor = drives_[number].slowness.factor(),
            .better = better,
            .leave = std::vector<SlotIndex>(loads.size()),
            .come = std::vector<SlotIndex>(loads.size())};
  const std::vector<double> targets = Targets(loads);
  double leave = 0;
  double come = 0;
  std::vector<double> more(loads.size());
  for (std::uint32_t i = 0; i < loads.size(); ++i) {
    if (loads[i].fenced) continue;
    more[i] = targets[i] - loads[i].staying;
    if (i == number) more[i] = better ? std::max(more[i], 0.0) : std::min(more[i], 0.0);
    if (!better && drives_[i].slow == 1) more[i] = std::max(more[i], 0.0);
    leave += loads[i].leaving + std::max(-more[i], 0.0);
    come += std::max(more[i], 0.0);
  }
  for (std::uint32_t i = 0; i < loads.size(); ++i) {
    if (more[i] < 0) move.leave[i] = static_cast<SlotIndex>(-more[i]);
    if (more[i] > 0) move.come[i] = static_cast<SlotIndex>(more[i] * std::min(1.0, leave / come));
  }
  return move;
}

}  // namespace sluice::io
