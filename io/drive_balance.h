#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "io/page_store.h"

namespace sluice::io {

/// Which of several drives has more of the pages that are read than it is quick enough for. What
/// tells is how long reads take, from call to end, those of the same period side by side: a drive
/// that holds too much has them wait. (The rate that a drive shows falls, too, when the others
/// leave it little to do.)
/// Threads: externally synchronised.
class DriveBalance {
 public:
  struct Load {
    SlotIndex pages = 0;  ///< that are to stay on the drive
    SlotIndex room = 0;   ///< for as many more
    bool fenced = false;
  };
  struct Excess {
    std::uint32_t drive = 0;
    SlotIndex pages = 0;           ///< that had better be elsewhere, for now
    double seconds = 0;            ///< the median of its reads
    double seconds_elsewhere = 0;  ///< of the quickest drive with room
  };

  /// `reads`: of a period, at least 8 times the drives.
  DriveBalance(std::size_t drives, std::size_t reads) : reads_(reads), samples_(drives) {}

  /// A read that ended well. True when that ends a period: Weigh is to be called.
  bool NoteRead(std::uint32_t drive, double seconds);
  /// Ends the period. A drive whose reads have taken more than 1.5 times as long as another's for
  /// three periods in a row is to give a part of its pages away, as far as the others have room. It
  /// is a small part at first, twice that while it is not enough, and a quarter when the drive that
  /// is too slow is another one; then more and more periods go by before the next, too, until
  /// things are calm. So what turns back again and again costs less and less.
  std::optional<Excess> Weigh(std::span<const Load> loads);

 private:
  std::optional<Excess> FindSlow(std::span<const Load> loads);
  void CalmDown();
  bool IsSlowLongEnough(const std::optional<Excess>& slow);
  /// Of `slow`, for now; 0: too few to be worth it.
  SlotIndex PagesOf(const Excess& slow, std::span<const Load> loads);
  /// Of the reads of the period; none where these are few.
  std::optional<double> Median(std::uint32_t drive);

  const std::size_t reads_;
  std::vector<std::vector<double>> samples_;  ///< by drive, seconds
  std::size_t count_ = 0;
  std::uint32_t slow_drive_ = 0;
  int times_slow_ = 0;       ///< in a row
  std::uint64_t pause_ = 0;  ///< periods that count for nothing
  std::uint64_t next_pause_ = 1;
  std::uint64_t calm_ = 0;                 ///< periods without a slow drive
  std::optional<std::uint32_t> relieved_;  ///< the last time
  double part_ = 0;
};

}  // namespace sluice::io
