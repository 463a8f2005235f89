#include "io/drives/drive_shares.h"

#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <thread>

#include "base/check.h"
#include "base/status.h"
#include "io/drives/disk_rates.h"

namespace sluice::io {
namespace {

using Clock = std::chrono::steady_clock;

/// Longest wait for other ranks, which is far longer than all of them take for their measurements.
constexpr auto kRanksWait = std::chrono::seconds(20);

constexpr std::uint64_t kBlockBytes = std::uint64_t{256} << 10;
constexpr std::uint64_t kFileBytesMin = 8 * kBlockBytes;
constexpr std::uint64_t kFileBytesMax = std::uint64_t{32} << 20;

/// Bytes of the file that a measurement reads and writes: no more than an even share of the drives,
/// as a small drive has no room for the pages of all.
std::uint64_t FileBytes(const PageStoreOptions& store, std::size_t drives) {
  const std::uint64_t blocks = store.page_bytes * store.slots / drives / kBlockBytes;
  return std::clamp(blocks * kBlockBytes, kFileBytesMin, kFileBytesMax);
}

/// The measurement of a drive by this process alone. Ranks of a host start together. Each would see
/// a part of the rate, another one of each drive. Where the lock is refused, or held until the
/// deadline, the drive is measured all the same.
class SoleMeasurement {
 public:
  SoleMeasurement(int directory, Clock::time_point deadline) : directory_(directory) {
    constexpr auto kPause = std::chrono::milliseconds(2);
    while (flock(directory_, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK || Clock::now() > deadline) return;
      std::this_thread::sleep_for(kPause);
    }
  }
  ~SoleMeasurement() { flock(directory_, LOCK_UN); }
  SoleMeasurement(const SoleMeasurement&) = delete;
  SoleMeasurement& operator=(const SoleMeasurement&) = delete;

 private:
  const int directory_;
};

absl::StatusOr<DiskRates> MeasureDrive(const PageStoreOptions& store,
                                       const OpenedDirectory& opened,
                                       std::size_t drives,
                                       Clock::time_point deadline) {
  const SoleMeasurement sole(opened->fd.get(), deadline);
  absl::StatusOr<DiskRates> rates = MeasureDiskRates({.opened = opened,
                                                      .file_bytes = FileBytes(store, drives),
                                                      .keep_free_bytes = store.keep_free_bytes,
                                                      .block_bytes = kBlockBytes,
                                                      .queue_depth = 8,
                                                      .io_uring = store.io_uring,
                                                      .milliseconds = 45});
  if (!rates.ok()) return base::Annotate(rates.status(), "drive " + opened->path);
  return rates;
}

/// Division of the slots: some drives get a part by their rate, the others get `least`.
struct Division {
  std::span<const double> rates;
  SlotIndex slots;
  SlotIndex least;
  std::vector<bool> raised;

  SlotIndex ToDivide() const {
    const auto count = static_cast<SlotIndex>(std::count(raised.begin(), raised.end(), true));
    return slots - std::min(slots, count * least);
  }
  double RateOfTheOthers() const {
    double sum = 0;
    for (std::size_t i = 0; i < rates.size(); ++i) sum += raised[i] ? 0 : rates[i];
    return sum;
  }
};

/// Raises drives whose parts would be too small. Returns whether there was one, since the others
/// have less then.
bool RaiseOnce(Division* division) {
  const double slots_per_rate = division->ToDivide() / division->RateOfTheOthers();
  bool any = false;
  for (std::size_t i = 0; i < division->rates.size(); ++i) {
    if (division->raised[i] || division->rates[i] * slots_per_rate >= division->least) continue;
    division->raised[i] = any = true;
  }
  return any;
}

/// Rounds the shares. The next drive gets the part that is rounded off.
std::vector<SlotIndex> Round(const Division& division) {
  std::vector<SlotIndex> shares;
  const double slots_per_rate = division.ToDivide() / division.RateOfTheOthers();
  double rates = 0;
  SlotIndex given = 0;
  for (std::size_t i = 0; i < division.rates.size(); ++i) {
    if (division.raised[i]) {
      shares.push_back(division.least);
      continue;
    }
    rates += division.rates[i];
    const auto until = static_cast<SlotIndex>(std::llround(rates * slots_per_rate));
    shares.push_back(until - given);
    given = until;
  }
  return shares;
}

}  // namespace

absl::StatusOr<std::vector<double>> DriveShares::MeasureRates(
    const PageStoreOptions& store, const std::vector<OpenedDirectory>& opened) {
  std::vector<double> all;
  bool direct = true;
  const Clock::time_point deadline = Clock::now() + kRanksWait;
  for (const OpenedDirectory& directory : opened) {
    SLUICE_ASSIGN_OR_RETURN(const DiskRates rates,
                            MeasureDrive(store, directory, opened.size(), deadline));
    all.push_back(std::max(rates.mixed, 1.0));
    direct = direct && rates.direct;
  }
  return direct ? all : std::vector<double>();
}

std::vector<SlotIndex> DriveShares::DivideSlots(SlotIndex slots, std::span<const double> rates) {
  for (const double rate : rates) SLUICE_CHECK(rate > 0, "the rate of a drive is above 0");
  const auto tenths = static_cast<SlotIndex>(10 * rates.size());
  Division division{.rates = rates,
                    .slots = slots,
                    .least = std::max<SlotIndex>(1, slots / tenths),
                    .raised = std::vector<bool>(rates.size())};
  while (RaiseOnce(&division)) {
  }
  return Round(division);
}

DriveShares::DriveShares(std::size_t drives,
                         std::uint64_t page_bytes,
                         std::span<const double> rates)
    : page_bytes_(page_bytes) {
  for (std::size_t i = 0; i < drives; ++i) {
    const double rate = rates.empty() ? 0 : rates[i];
    drives_.push_back({.meter = RateMeter(rate), .rate_at_start = rate});
  }
}

void DriveShares::End(std::uint32_t drive, bool moved, Clock::time_point now) {
  drives_[drive].meter.End(moved ? page_bytes_ : 0, now);
}

void DriveShares::TakeTurn(std::uint32_t drive, Clock::time_point now) {
  const double first = drives_[drive].turn;
  const double rate = drives_[drive].meter.RateAt(now, page_bytes_);
  drives_[drive].turn += static_cast<double>(page_bytes_) / rate;
  for (MeteredDrive& each : drives_) each.turn = std::max(each.turn, first);
}

}  // namespace sluice::io
