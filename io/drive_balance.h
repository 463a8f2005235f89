#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "io/drive_slowness.h"
#include "io/page_store.h"

namespace sluice::io {

/// What is to leave drives when one of them has become slow, or well again.
/// Threads: externally synchronised.
class DriveBalance {
 public:
  struct Load {
    SlotIndex pages = 0;    ///< that are to stay on the drive
    SlotIndex leaving = 0;  ///< that are to leave it
    SlotIndex room = 0;     ///< for as many more, beyond those that are to leave others
    bool fenced = false;
  };
  /// One drive has changed, and these pages are to leave: it, or the others.
  struct Move {
    std::uint32_t drive = 0;
    double factor = 1;  ///< its own, see DriveSlowness
    bool well = false;  ///< again, and may be written like the others
    std::vector<SlotIndex>
        pages;  ///< of each drive; none of any where one is well and has its part
  };

  /// `window`: reads of a drive that it looks at together.
  DriveBalance(std::size_t drives, std::size_t window);

  /// A read that ended well, `ahead` as above. True when Weigh is to be asked about the drive.
  bool NoteRead(std::uint32_t drive, std::uint32_t ahead, double seconds);
  /// Where the drive has been at least 3 times slower than it used to be over 4 windows, and the
  /// others, which have shown 2 windows meanwhile, have not: what it has beyond its part as it is
  /// now is to leave, if all had their parts before, as far as there is room. Once it has been well
  /// for 16 windows it is to have its part again. Then twice as many windows have to show that it
  /// is slow, so that one that is slow now and then costs less and less. Of the others, one whose
  /// pages have left counts as slow only as far as it has become slower since.
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
    double part = 0;     ///< of all pages, before any left
    /// Of all drives, when it began to be slow.
    std::vector<std::uint64_t> windows_before = {};
  };

  double FactorBeside(std::uint32_t number, std::span<const Load> loads) const;
  void Count(std::uint32_t number, double beside);
  std::optional<Move> Leave(std::uint32_t number, double factor, std::span<const Load> loads);
  Move Return(std::uint32_t number, std::span<const Load> loads);

  std::vector<Drive> drives_;
};

}  // namespace sluice::io
