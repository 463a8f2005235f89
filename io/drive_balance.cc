#include "io/drive_balance.h"

#include <algorithm>

namespace sluice::io {
namespace {

/// Of the reads of a period, at least from each drive. Where one has fewer the period goes on, but
/// not for ever.
constexpr std::size_t kOfEach = 8;
constexpr std::size_t kPeriodsMax = 8;

constexpr double kFarLonger = 1.5;
constexpr int kTimesSlow = 3;
constexpr std::uint64_t kPauseMax = 4096;
constexpr std::uint64_t kCalmPauses = 4;
constexpr double kFirstPart = 1.0 / 16;
constexpr double kPartMin = 1.0 / 64;
constexpr double kPartMax = 1.0 / 2;
/// Of a drive's pages; fewer are not worth it.
constexpr std::size_t kRest = 64;
constexpr SlotIndex kWorthIt = 1024;

}  // namespace

bool DriveBalance::NoteRead(std::uint32_t drive, double seconds) {
  samples_[drive].push_back(seconds);
  if (++count_ < reads_) return false;
  const bool each = std::all_of(samples_.begin(), samples_.end(), [](const auto& samples) {
    return samples.size() >= kOfEach;
  });
  return each || count_ >= kPeriodsMax * reads_;
}

std::optional<DriveBalance::Excess> DriveBalance::Weigh(std::span<const Load> loads) {
  std::optional<Excess> slow = FindSlow(loads);
  for (auto& samples : samples_) samples.clear();
  count_ = 0;
  if (!slow.has_value()) CalmDown();
  if (!IsSlowLongEnough(slow)) return std::nullopt;
  times_slow_ = 0;
  slow->pages = PagesOf(*slow, loads);
  if (slow->pages == 0) return std::nullopt;
  pause_ = next_pause_;
  return slow;
}

/// Halves the pause after so many periods without need of one.
void DriveBalance::CalmDown() {
  if (++calm_ < kCalmPauses * next_pause_) return;
  calm_ = 0;
  next_pause_ = std::max<std::uint64_t>(next_pause_ / 2, 1);
}

bool DriveBalance::IsSlowLongEnough(const std::optional<Excess>& slow) {
  if (pause_ > 0) {
    --pause_;
    return false;
  }
  if (!slow.has_value()) {
    times_slow_ = 0;
    return false;
  }
  times_slow_ = slow->drive == slow_drive_ ? times_slow_ + 1 : 1;
  slow_drive_ = slow->drive;
  return times_slow_ >= kTimesSlow;
}

/// The drive whose reads take longest, if that is far longer than those of one with room.
std::optional<DriveBalance::Excess> DriveBalance::FindSlow(std::span<const Load> loads) {
  std::optional<Excess> slow;
  std::optional<double> quick;
  for (std::uint32_t i = 0; i < loads.size(); ++i) {
    const std::optional<double> seconds = loads[i].fenced ? std::nullopt : Median(i);
    if (!seconds.has_value()) continue;
    if (!slow || *seconds > slow->seconds) slow = Excess{.drive = i, .seconds = *seconds};
    if (loads[i].room > 0 && (!quick || *seconds < *quick)) quick = seconds;
  }
  if (!quick || slow->seconds <= kFarLonger * *quick) return std::nullopt;
  slow->seconds_elsewhere = *quick;
  return slow;
}

/// A part of what the drive has, or of what the others have where that is much less: so it does not
/// turn over.
SlotIndex DriveBalance::PagesOf(const Excess& slow, std::span<const Load> loads) {
  if (!relieved_.has_value()) {
    part_ = kFirstPart;
  } else {
    const bool again = *relieved_ == slow.drive;
    if (!again) next_pause_ = std::min(2 * next_pause_, kPauseMax);
    part_ = std::clamp(again ? 2 * part_ : part_ / 4, kPartMin, kPartMax);
  }
  relieved_ = slow.drive;
  SlotIndex others = 0;
  SlotIndex room = 0;
  for (std::uint32_t i = 0; i < loads.size(); ++i) {
    if (i == slow.drive || loads[i].fenced) continue;
    others += loads[i].pages;
    room += loads[i].room;
  }
  const SlotIndex own = loads[slow.drive].pages;
  const auto rest = static_cast<SlotIndex>((own + others) / loads.size() / kRest);
  auto pages = static_cast<SlotIndex>(part_ * std::min(own, others + own / 8));
  pages = std::min({pages, room, own - std::min(own, rest)});
  return pages < own / kWorthIt ? 0 : pages;
}

std::optional<double> DriveBalance::Median(std::uint32_t drive) {
  std::vector<double>& samples = samples_[drive];
  if (samples.size() < kOfEach) return std::nullopt;
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

}  // namespace sluice::io
