#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "io/drive_slowness.h"
#include "io/page_store.h"

namespace sluice::io {

/// Where pages had better be when one of several drives has become slow, or better again.
/// Threads: externally synchronised.
class DriveBalance {
 public:
  struct Load {
    SlotIndex staying = 0;  ///< pages on the drive that are to stay there
    SlotIndex leaving = 0;  ///< and those that are to leave it
    SlotIndex room = 0;     ///< for as many more
    bool fenced = false;
  };
  /// One drive has changed, or has still far from its part. About as many are to leave as to come.
  struct Move {
    std::uint32_t drive = 0;
    double factor = 1;             ///< its own, see DriveSlowness
    bool better = false;           ///< than it was, or slower
    std::vector<SlotIndex> leave;  ///< of those that stay on each drive
    std::vector<SlotIndex> come;   ///< to each drive, of all that leave any
  };

  /// `window`: reads of a drive that it looks at together.
  DriveBalance(std::size_t drives, std::size_t window);

  /// A write whose turn it was on a drive.
  void NoteWrite() { written_ = true; }
  /// A read that ended well, `ahead` as of DriveSlowness. True when Weigh is to be asked about the
  /// drive.
  bool NoteRead(std::uint32_t drive, std::uint32_t ahead, double seconds);
  /// Where the drive has been at least 3 times slower than it used to be over 4 windows, and the
  /// others, which have shown 2 windows meanwhile, have not, it counts as that much slower from
  /// then on, and so again where it is at least twice as slow as it counts; once it has been at
  /// most half as slow for 16 windows, as that, and below 1.5 as well. Then twice as many windows
  /// have to show that it is slow, so that one that is slow now and then costs less and less. Each
  /// drive is to have its part, divided by what it counts as, as far as there is room; but none
  /// that is well gives up pages for one that becomes slow. Its part is what it has while all are
  /// well and nothing moves, after writes. Others are looked at by how much slower they are than
  /// they count.
  std::optional<Move> Weigh(std::uint32_t drive, std::span<const Load> loads);

 private:
  struct Drive {
    DriveSlowness slowness;
    std::uint64_t windows = 0;
    int windows_slow = 0;    ///< in a row, slower than it counts
    int windows_better = 0;  ///< in a row
    int windows_needed = 4;
    double least = 0;  ///< factor of those of windows_slow
    double slow = 1;   ///< what it counts as
    double part = 0;   ///< of the pages, while all are well
    int owed = 0;      ///< times that it may be seen to, until it has its part again
    /// Of all drives, when it began to be slow.
    std::vector<std::uint64_t> windows_before = {};
  };
  struct Beside {
    double factor = 1;
    bool others_known = false;
  };

  Beside FactorBeside(std::uint32_t number, std::span<const Load> loads) const;
  void Count(std::uint32_t number, const Beside& beside);
  std::optional<Move> Slower(std::uint32_t number, std::span<const Load> loads);
  std::optional<Move> Better(std::uint32_t number, double factor, std::span<const Load> loads);
  std::optional<Move> SeeTo(std::uint32_t number, double factor, std::span<const Load> loads);
  void LearnParts(std::span<const Load> loads);
  std::vector<double> Targets(std::span<const Load> loads) const;
  std::optional<Move> Plan(std::uint32_t number, bool better, std::span<const Load> loads) const;

  std::vector<Drive> drives_;
  bool written_ = false;  ///< since parts were learned
  bool known_ = false;    ///< parts are
};

}  // namespace sluice::io
