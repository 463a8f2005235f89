#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <vector>

#include "io/drive_ledger.h"

namespace sluice::testing {

/// Drives in virtual time that serve several requests at a time, a number of which are always
/// outstanding: pages are read, each of which is written anew once it has been told to leave.
class ClosedLoop {
 public:
  static constexpr io::SlotIndex kPages = 1000;

  struct Load {
    std::size_t drives = 2;
    std::size_t servers = 1;  ///< of each drive
    std::size_t depth = 16;
    bool sequential = false;  ///< or pages at random
    bool one_disk = false;    ///< the drives are directories of it
    double writes = 0;        ///< share of operations that overwrite a page
    /// Of the logarithm of service times; 0: they are exponential, far more uneven than a drive's.
    double deviation = 0;
    io::SlotIndex slots = 4 * kPages;
    std::uint64_t seed = 1;
  };

  /// Writes all pages once.
  explicit ClosedLoop(const Load& load);

  io::DriveLedger& ledger() { return *ledger_; }
  /// What may change on the way: depth, order, writes.
  Load& load() { return load_; }
  /// How much longer than at first reads and writes of a drive take.
  void Slow(std::size_t drive, double reads, double writes) { slow_[drive] = {reads, writes}; }
  void Slow(std::size_t drive, double both) { Slow(drive, both, both); }
  /// From now on the drive refuses all writes.
  void RefuseWrites(std::size_t drive) { refuses_[drive] = true; }
  /// Only these pages are used, from 0 on.
  void UseOnly(io::SlotIndex pages) { used_ = pages; }
  /// Operations per second, over `count` of them.
  double Run(int count);
  /// Forgets all pages and writes them again.
  void WriteAllAgain();
  /// Ends what is on its way.
  void Drain();

  std::uint64_t rebalanced() const;
  std::uint64_t rewritten() const { return rewritten_; }
  const std::vector<io::SlowDrive>& told() const { return slow_drives_; }
  /// Share of the pages.
  double ShareOf(std::uint32_t drive);

 private:
  using Clock = io::DriveLedger::Clock;
  struct Underway {
    Clock::time_point end;
    std::optional<io::ReadAttempt> read;
    std::optional<io::WriteAttempt> write;
    bool operator>(const Underway& other) const { return end > other.end; }
  };

  io::SlotIndex NextPage();
  void Start(io::SlotIndex slot, bool writes);
  Clock::time_point Serve(std::uint32_t drive, bool writes);
  double ServiceTime();
  void EndOne();
  void EndWrite(Underway write);
  void EndRead(const io::ReadAttempt& read);

  Load load_;
  std::mt19937_64 random_;
  std::uniform_real_distribution<double> uniform_;
  std::normal_distribution<double> normal_;
  std::optional<io::DriveLedger> ledger_;
  std::vector<std::pair<double, double>> slow_;
  std::vector<bool> refuses_;
  std::vector<std::vector<Clock::time_point>> free_at_;
  std::priority_queue<Underway, std::vector<Underway>, std::greater<>> underway_;
  std::set<io::SlotIndex> busy_;
  std::set<io::SlotIndex> leaving_;
  std::vector<io::SlowDrive> slow_drives_;
  io::SlotIndex used_ = kPages;
  io::SlotIndex next_ = 0;
  std::uint64_t rewritten_ = 0;
  Clock::time_point now_{};
};

}  // namespace sluice::testing
