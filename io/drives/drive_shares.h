#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "io/file/spill_directory.h"
#include "io/store/page_store.h"
#include "io/store/rate_meter.h"

namespace sluice::io {

/// Shares of several drives: slots in proportion to the rates measured at the start, and writes in
/// turn by the rates that the drives show. Threads: externally synchronised.
class DriveShares {
 public:
  using Clock = RateMeter::Clock;

  /// Rates of reads and writes in turn, in bytes per second, in the order of `opened`, the
  /// directories; measured with a file without a name of at most 32 MiB, one drive
  /// after another, and each by one process at a time. Empty if a drive refuses O_DIRECT: the page
  /// cache would be measured there. Blocks for about 0.2 s a drive and process. Errors: those of
  /// MeasureDiskRates, each names the directory.
  static absl::StatusOr<std::vector<double>> MeasureRates(
      const PageStoreOptions& store, const std::vector<OpenedDirectory>& opened);

  /// The part of `slots` for each drive, in proportion to its rate (any unit, above 0), but at
  /// least a tenth of an even part. Together they are `slots`; if those are fewer than the drives,
  /// each gets one.
  static std::vector<SlotIndex> DivideSlots(SlotIndex slots, std::span<const double> rates);

  /// `rates`: rates at the start, one for each drive; empty: not known.
  DriveShares(std::size_t drives, std::uint64_t page_bytes, std::span<const double> rates);

  // An operation of one page; `moved`: whether it moved the page.
  void Begin(std::uint32_t drive, Clock::time_point now) { drives_[drive].meter.Begin(now); }
  void End(std::uint32_t drive, bool moved, Clock::time_point now);

  /// Place of the drive in a fair queue. The next drive is the first that may be written.
  double turn(std::uint32_t drive) const { return drives_[drive].turn; }
  /// Notes a write to the drive: its turn comes again after page_bytes / rate. No other drive comes
  /// before it then, so that an idle drive does not catch up.
  void TakeTurn(std::uint32_t drive, Clock::time_point now);

  /// Bytes per second; 0 while unknown.
  double rate(std::uint32_t drive) const { return drives_[drive].meter.rate(); }
  /// Bytes per second measured at the start; 0: not measured.
  double rate_at_start(std::uint32_t drive) const { return drives_[drive].rate_at_start; }

 private:
  struct MeteredDrive {
    RateMeter meter;
    double rate_at_start = 0;
    double turn = 0;
  };

  const std::uint64_t page_bytes_;
  std::vector<MeteredDrive> drives_;
};

}  // namespace sluice::io
