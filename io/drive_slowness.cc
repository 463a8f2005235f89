#include "io/drive_slowness.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"

namespace sluice::io {
namespace {

/// A median follows by one part in as many at a read, so that it does not follow a drive that
/// becomes slow by and by.
constexpr std::size_t kStepsMax = std::size_t{1} << 16;
constexpr std::size_t kWindowMax = 4096;
/// A clock may stand still.
constexpr double kSecondsMin = 1e-9;

/// Of at least one value, whose order is lost.
double MedianOf(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Two for each doubling.
std::size_t LevelOf(std::uint32_t ahead) {
  const std::uint64_t operations = std::uint64_t{ahead} + 1;
  const auto doublings = static_cast<std::size_t>(std::bit_width(operations)) - 1;
  if (doublings == 0) return 0;
  return 2 * doublings - 1 + (operations >> (doublings - 1) & 1);
}

/// The fewest operations of a level.
double OperationsOf(std::size_t level) {
  if (level == 0) return 1;
  return std::exp2((level + 1) / 2) * (level % 2 == 0 ? 1.5 : 1);
}

}  // namespace

DriveSlowness::DriveSlowness(std::size_t window) : window_(window) {
  SLUICE_CHECK(window >= 1 && window <= kWindowMax, "a window is from 1 to 4096 reads");
}

/// After the window by steps up and down that become smaller.
void DriveSlowness::Median::Add(double seconds, std::size_t window) {
  reads_ = std::min(reads_ + 1, kStepsMax);
  if (reads_ <= window) {
    first_.push_back(seconds);
    if (reads_ < window) return;
    seconds_ = MedianOf(first_);
    first_ = {};
    return;
  }
  const double step = 1 / static_cast<double>(reads_ + 1);
  if (seconds > seconds_) seconds_ *= 1 + step;
  if (seconds < seconds_) seconds_ *= 1 - step;
}

bool DriveSlowness::NoteRead(std::uint32_t ahead, double seconds) {
  const std::size_t level = std::min(LevelOf(ahead), usual_.size() - 1);
  const Sample sample{.level = level, .seconds = std::max(seconds, kSecondsMin)};
  const std::optional<double> usual = UsualOf(level);
  if (!usual.has_value()) {
    usual_[level].Add(sample.seconds, window_);
    return false;
  }
  samples_.push_back(sample);
  factors_.push_back(sample.seconds / *usual);
  if (samples_.size() < window_) return false;
  EndWindow();
  return true;
}

/// What a drive takes while it is slow does not become usual.
void DriveSlowness::EndWindow() {
  factor_ = MedianOf(factors_);
  if (factor_ < kWell) {
    for (const Sample& sample : samples_) usual_[sample.level].Add(sample.seconds, window_);
  }
  samples_.clear();
  factors_.clear();
}

/// Where it is not known of as many operations ahead: of fewer, as with n times as many a read
/// takes at most n times as long on a drive that is as it was; else of more, as it takes no longer
/// with fewer. So a drive rather looks well that is slow than the other way round. None where
/// nothing is known.
std::optional<double> DriveSlowness::UsualOf(std::size_t level) const {
  for (std::size_t at = level + 1; at-- > 0;) {
    if (usual_[at].known()) {
      return usual_[at].seconds() * OperationsOf(level) / OperationsOf(at);
    }
  }
  for (std::size_t at = level + 1; at < usual_.size(); ++at) {
    if (usual_[at].known()) return usual_[at].seconds();
  }
  return std::nullopt;
}

}  // namespace sluice::io
