#include "io/drive_balance.h"

#include <algorithm>

namespace sluice::io {
namespace {

constexpr int kWindowsWell = 16;
constexpr int kWindowsNeededMax = 4096;

/// The pages of those that can take part, but for `number`.
double PagesBeside(std::uint32_t number, std::span<const DriveBalance::Load> loads) {
  double pages = 0;
  for (std::uint32_t i = 0; i < loads.size(); ++i) {
    if (i != number && !loads[i].fenced) pages += loads[i].pages;
  }
  return pages;
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
  Drive& drive = drives_[number];
  const double beside = FactorBeside(number, loads);
  Count(number, beside);
  if (loads[number].fenced) return std::nullopt;
  if (drive.windows_well >= kWindowsWell && drive.left > 0) return Return(number, loads);
  if (drive.windows_slow < drive.windows_needed || beside < 2 * drive.told) return std::nullopt;
  return Leave(number, beside, loads);
}

void DriveBalance::Count(std::uint32_t number, double beside) {
  Drive& drive = drives_[number];
  const double own = drive.slowness.factor();
  drive.windows_well = own < DriveSlowness::kWell ? drive.windows_well + 1 : 0;
  drive.windows_slow = beside >= DriveSlowness::kSlow ? drive.windows_slow + 1 : 0;
  if (own < DriveSlowness::kSlow) return drive.windows_before.clear();
  if (!drive.windows_before.empty()) return;
  for (const Drive& each : drives_) drive.windows_before.push_back(each.windows);
}

/// By which the drive is slower than the slowest of the others that have been read since it is; 1
/// where none has.
double DriveBalance::FactorBeside(std::uint32_t number, std::span<const Load> loads) const {
  const Drive& drive = drives_[number];
  std::optional<double> others;
  for (std::uint32_t i = 0; i < loads.size() && !drive.windows_before.empty(); ++i) {
    const bool seen = drives_[i].windows > drive.windows_before[i] + 1;
    if (i == number || loads[i].fenced || !seen) continue;
    others = std::max(others.value_or(1), drives_[i].slowness.factor() / drives_[i].told);
  }
  return others.has_value() ? drive.slowness.factor() / *others : 1;
}

std::optional<DriveBalance::Move> DriveBalance::Leave(std::uint32_t number,
                                                      double factor,
                                                      std::span<const Load> loads) {
  Drive& drive = drives_[number];
  double room = 0;
  for (std::uint32_t i = 0; i < loads.size(); ++i) {
    if (i != number && !loads[i].fenced) room += loads[i].room;
  }
  const double own = loads[number].pages;
  const double others = PagesBeside(number, loads);
  const double now = own * drive.told / factor;
  const double part = (own + others) * now / std::max(now + others, 1.0);
  Move move{.drive = number,
            .factor = drive.slowness.factor(),
            .pages = std::vector<SlotIndex>(drives_.size())};
  move.pages[number] = static_cast<SlotIndex>(std::clamp(own - part, 0.0, room));
  if (move.pages[number] == 0) return std::nullopt;
  if (drive.left == 0) drive.part = own / (own + others);
  drive.told = factor;
  drive.left += move.pages[number];
  return move;
}

DriveBalance::Move DriveBalance::Return(std::uint32_t number, std::span<const Load> loads) {
  Drive& drive = drives_[number];
  Move move{.drive = number,
            .factor = drive.slowness.factor(),
            .well = true,
            .pages = std::vector<SlotIndex>(drives_.size())};
  const double leaving = loads[number].leaving;  // written anew all the same, wherever it be
  const double own = loads[number].pages + drive.part * leaving;
  const double others = PagesBeside(number, loads);
  const double part = drive.part * (loads[number].pages + leaving + others);
  const double most = std::min(drive.left, loads[number].room);
  const double back = std::clamp(part - own, 0.0, most);
  for (std::uint32_t i = 0; i < loads.size(); ++i) {
    if (i == number || loads[i].fenced) continue;
    move.pages[i] = static_cast<SlotIndex>(back * loads[i].pages / std::max(others, 1.0));
  }
  drive.told = 1;
  drive.left = 0;
  drive.windows_needed = std::min(2 * drive.windows_needed, kWindowsNeededMax);
  return move;
}

}  // namespace sluice::io
