#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "io/page_store.h"

namespace sluice::io {

/// How much longer than it used to a drive takes for its reads. A read is held against earlier ones
/// that found as many operations ahead of them: how long it waits for others says nothing.
/// Threads: externally synchronised.
class DriveSlowness {
 public:
  /// `window`: reads that it looks at together.
  explicit DriveSlowness(std::size_t window) : window_(window) {}

  /// A read that ended well. True when that ends a window, which factor() is of then.
  bool NoteRead(std::uint32_t ahead, double seconds);
  /// The median over the window of time by what it was; 1 until that is known.
  double factor() const { return factor_; }

 private:
  /// What reads take that find from 2^i - 1 to 2^(i+1) - 2 operations ahead of them.
  struct Usual {
    double seconds = 0;
    std::size_t reads = 0;  ///< that it was learned from, as far as that matters
  };

  /// None while nothing is known of as few operations ahead, or fewer.
  std::optional<double> UsualOf(std::size_t level) const;
  void Learn(std::size_t level, double seconds);

  const std::size_t window_;
  std::array<Usual, 11> usual_;
  std::vector<double> factors_;
  double factor_ = 1;
};

/// What is to leave drives when one of them has become slow, or well again.
/// Threads: externally synchronised.
class DriveBalance {
 public:
  struct Load {
    SlotIndex pages = 0;  ///< that are to stay on the drive
    SlotIndex room = 0;   ///< for as many more, beyond those that are on their way to any
    bool fenced = false;
  };
  /// One drive has changed, and these pages are to leave: it, or the others.
  struct Move {
    std::uint32_t drive = 0;
    double factor = 1;             ///< its own, see DriveSlowness
    std::vector<SlotIndex> pages;  ///< of each drive
  };

  /// `window`: reads of a drive that it looks at together.
  DriveBalance(std::size_t drives, std::size_t window);

  /// A read that ended well, `ahead` as above. True when Weigh is to be asked about the drive.
  bool NoteRead(std::uint32_t drive, std::uint32_t ahead, double seconds);
  /// Where the drive has been at least 3 times slower than it used to be over 4 windows, and the
  /// others have not: what it has beyond its part as it is now is to leave, if all had their parts
  /// before, as far as there is room. Once it has been well for 16 windows as many are to come
  /// back. Then twice as many windows have to show that it is slow, so that one that is slow now
  /// and then costs less and less.
  std::optional<Move> Weigh(std::uint32_t drive, std::span<const Load> loads);

 private:
  struct Drive {
    DriveSlowness slowness;
    std::uint64_t windows = 0;
    int windows_slow = 0;  ///< in a row
    int windows_well = 0;  ///< in a row
    int windows_needed = 4;
    double told = 1;     ///< the factor that pages have left for
    SlotIndex left = 0;  ///< as many
    /// Of all drives, when it began to be slow.
    std::vector<std::uint64_t> windows_before = {};
  };

  double FactorBeside(std::uint32_t number, std::span<const Load> loads) const;
  void Count(std::uint32_t number, double factor);
  SlotIndex PagesToLeave(std::uint32_t number, double factor, std::span<const Load> loads) const;
  Move Return(std::uint32_t number, std::span<const Load> loads);

  std::vector<Drive> drives_;
};

}  // namespace sluice::io
