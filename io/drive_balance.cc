#include "io/drive_balance.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace sluice::io {
namespace {

constexpr double kFarSlower = 3;
constexpr double kWell = 1.5;
constexpr int kWindowsWell = 16;
constexpr int kWindowsNeededMax = 4096;
constexpr std::size_t kStepsMax = 1024;

}  // namespace

bool DriveSlowness::NoteRead(std::uint32_t ahead, double seconds) {
  const auto level = std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(ahead + 1)) - 1,
                                           usual_.size() - 1);
  const std::optional<double> usual = UsualOf(level);
  if (usual.has_value()) factors_.push_back(seconds / *usual);
  if (factor_ < kWell) Learn(level, seconds);
  if (factors_.size() < window_) return false;
  const auto middle = factors_.begin() + static_cast<std::ptrdiff_t>(window_ / 2);
  std::nth_element(factors_.begin(), middle, factors_.end());
  factor_ = *middle;
  factors_.clear();
  return true;
}

/// Of fewer operations ahead where it is not known of as many: with n times as many a read takes at
/// most n times as long on a drive that is as it was.
std::optional<double> DriveSlowness::UsualOf(std::size_t level) const {
  for (std::size_t at = level + 1; at-- > 0;) {
    if (usual_[at].reads < window_) continue;
    return usual_[at].seconds * static_cast<double>(std::size_t{1} << (level - at));
  }
  return std::nullopt;
}

/// The median, by steps up and down that become smaller.
void DriveSlowness::Learn(std::size_t level, double seconds) {
  Usual& usual = usual_[level];
  if (usual.reads == 0) usual.seconds = seconds;
  usual.reads = std::min(usual.reads + 1, kStepsMax);
  const double step = 1 / static_cast<double>(usual.reads + 1);
  if (seconds > usual.seconds) usual.seconds *= 1 + step;
  if (seconds < usual.seconds) usual.seconds *= 1 - step;
}

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
  const double factor = FactorBeside(number, loads);
  Count(number, factor);
  if (drive.windows_well >= kWindowsWell && drive.left > 0) return Return(number, loads);
  if (drive.windows_slow < drive.windows_needed || factor < 2 * drive.told) return std::nullopt;
  Move move{.drive = number,
            .factor = drive.slowness.factor(),
            .pages = std::vector<SlotIndex>(drives_.size())};
  move.pages[number] = PagesToLeave(number, factor, loads);
  if (move.pages[number] == 0) return std::nullopt;
  drive.told = factor;
  drive.left += move.pages[number];
  return move;
}

void DriveBalance::Count(std::uint32_t number, double factor) {
  Drive& drive = drives_[number];
  drive.windows_well = drive.slowness.factor() < kWell ? drive.windows_well + 1 : 0;
  if (drive.slowness.factor() < kFarSlower) {
    drive.windows_slow = 0;
    drive.windows_before.clear();
    return;
  }
  if (drive.windows_before.empty()) {
    for (const Drive& each : drives_) drive.windows_before.push_back(each.windows);
  }
  drive.windows_slow = factor >= kFarSlower ? drive.windows_slow + 1 : 0;
}

/// By which the drive is slower than the slowest of the others that have been read since it is.
double DriveBalance::FactorBeside(std::uint32_t number, std::span<const Load> loads) const {
  const Drive& drive = drives_[number];
  double others = 0;
  for (std::uint32_t i = 0; i < loads.size() && !drive.windows_before.empty(); ++i) {
    const bool seen = drives_[i].windows > drive.windows_before[i] + 1;
    if (i != number && !loads[i].fenced && seen) {
      others = std::max(others, drives_[i].slowness.factor());
    }
  }
  if (others == 0 || loads[number].fenced) return 1;
  return drive.slowness.factor() / std::max(others, 1.0);
}

SlotIndex DriveBalance::PagesToLeave(std::uint32_t number,
                                     double factor,
                                     std::span<const Load> loads) const {
  double others = 0;
  SlotIndex room = 0;
  for (std::uint32_t i = 0; i < loads.size(); ++i) {
    if (i == number || loads[i].fenced) continue;
    others += loads[i].pages;
    room += loads[i].room;
  }
  const double own = loads[number].pages;
  const double now = own * drives_[number].told / factor;
  const double part = (own + others) * now / std::max(now + others, 1.0);
  return std::min(room, static_cast<SlotIndex>(std::max(own - part, 0.0)));
}

DriveBalance::Move DriveBalance::Return(std::uint32_t number, std::span<const Load> loads) {
  Drive& drive = drives_[number];
  Move move{.drive = number,
            .factor = drive.slowness.factor(),
            .pages = std::vector<SlotIndex>(drives_.size())};
  const double back = std::min(drive.left, loads[number].room);
  double others = 1;
  for (std::uint32_t i = 0; i < loads.size(); ++i) others += i == number ? 0 : loads[i].pages;
  for (std::uint32_t i = 0; i < loads.size(); ++i) {
    if (i == number || loads[i].fenced) continue;
    move.pages[i] = static_cast<SlotIndex>(back * loads[i].pages / others);
  }
  drive.told = 1;
  drive.left = 0;
  drive.windows_needed = std::min(2 * drive.windows_needed, kWindowsNeededMax);
  return move;
}

}  // namespace sluice::io
