#include "io/drive_set.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "io/admission.h"
#include "io/drive_meter.h"
#include "io/mutants.h"

namespace sluice::io {
namespace {

using Clock = DriveMeter::Clock;

/// Of a drive that has not shown its rate yet, in bytes per second.
constexpr double kUnknownRate = 1e9;

struct Drive {
  std::string directory;
  std::unique_ptr<PageStore> store;
  DriveMeter meter;
  std::vector<SlotIndex> free;
  /// In a row, of writes and of reads: a drive may take pages and give none back.
  int write_errors = 0;
  int read_errors = 0;
  bool fenced = false;
};

/// Where the page of a slot of the set is.
struct Place {
  std::uint32_t drive = 0;
  SlotIndex slot = 0;
  /// Operations that use the place; it is given back after the last.
  std::uint32_t users = 0;
  bool forgotten = false;
  bool taken = false;
  bool holds = false;  ///< its page was acknowledged
};

/// Whether an error speaks against the drive, not against the call, the moment or the space.
bool SpeaksAgainstDrive(const absl::Status& status) {
  return absl::IsInternal(status) || absl::IsDataLoss(status) || absl::IsUnavailable(status);
}

/// Whether another drive may take what this one refused.
bool OthersMayTake(const absl::Status& status) {
  return SpeaksAgainstDrive(status) || absl::IsResourceExhausted(status);
}

class DriveSet final : public PageStore {
 public:
  DriveSet(const DriveSetOptions& options,
           std::vector<std::unique_ptr<PageStore>> stores,
           base::WorkerPool& workers);
  ~DriveSet() override { admission_.Drain(); }

  void Write(SlotIndex slot,
             const PageIdentity& identity,
             std::span<const std::byte> data,
             DoneFn done) override;
  void Read(SlotIndex slot,
            const PageIdentity& identity,
            std::span<std::byte> data,
            DoneFn done) override;
  void Hasten(SlotIndex slot) override;
  void Forget(SlotIndex slot) override;
  PageStoreStats stats() const override;

 private:
  struct WriteJob {
    SlotIndex slot;
    PageIdentity identity;
    std::span<const std::byte> data;
    DoneFn done;
    std::vector<bool> refused;  ///< by drive
  };

  absl::Status CheckSlot(SlotIndex slot) const;
  absl::StatusOr<Place> BeginWrite(const WriteJob& job);
  absl::StatusOr<Place> BeginRead(SlotIndex slot);
  std::optional<std::uint32_t> ChooseDrive(const std::vector<bool>& refused) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<Place> TakePlace(const WriteJob& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<Place> Elsewhere(WriteJob& job, const Place& place, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GiveBack(SlotIndex slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LeavePlace(SlotIndex slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WriteAt(const Place& place, WriteJob job);
  void OnWritten(const Place& place, WriteJob job, absl::Status status);
  void OnRead(const Place& place, SlotIndex slot, const absl::Status& status);
  std::optional<FencedDrive> NoteOutcome(std::uint32_t drive,
                                         const absl::Status& status,
                                         int* errors) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  FencedDrive Fence(std::uint32_t drive, const absl::Status& cause)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Tell(std::optional<FencedDrive> fenced) const;
  absl::Status OnDrive(const Place& place, const absl::Status& status) const;
  void Refuse(absl::Status status, DoneFn done);
  void Finish(absl::Status status, DoneFn done);

  const DriveSetOptions options_;
  base::WorkerPool& workers_;
  Admission admission_;
  mutable base::Mutex mutex_;
  // Which drives there are, their directories and stores never change; the rest is guarded.
  std::vector<Drive> drives_;
  std::vector<Place> places_ ABSL_GUARDED_BY(mutex_);
};

DriveSet::DriveSet(const DriveSetOptions& options,
                   std::vector<std::unique_ptr<PageStore>> stores,
                   base::WorkerPool& workers)
    : options_(options),
      workers_(workers),
      admission_(options.store.operations_max),
      places_(options.store.slots) {
  const SlotIndex share = SlotsOfDrive(options);
  for (std::size_t i = 0; i < stores.size(); ++i) {
    Drive& drive = drives_.emplace_back();
    drive.directory = options.directories[i];
    drive.store = std::move(stores[i]);
    // From the back: low slots first, so that pages written in a row are neighbours.
    for (SlotIndex slot = share; slot-- > 0;) drive.free.push_back(slot);
  }
}

absl::Status DriveSet::CheckSlot(SlotIndex slot) const {
  if (slot < options_.store.slots) return absl::OkStatus();
  return absl::InvalidArgumentError(
      base::ToAbsl(fmt::format("slot {}: the store has {} slots", slot, options_.store.slots)));
}

void DriveSet::Write(SlotIndex slot,
                     const PageIdentity& identity,
                     std::span<const std::byte> data,
                     DoneFn done) {
  admission_.Enter();
  WriteJob job{slot, identity, data, std::move(done), std::vector<bool>(drives_.size())};
  absl::StatusOr<Place> place = BeginWrite(job);
  if (!place.ok()) return Refuse(std::move(place).status(), std::move(job.done));
  WriteAt(*place, std::move(job));
}

absl::StatusOr<Place> DriveSet::BeginWrite(const WriteJob& job) {
  SLUICE_RETURN_IF_ERROR(CheckSlot(job.slot));
  base::MutexLock lock(mutex_);
  if (places_[job.slot].users > 0) {
    return absl::FailedPreconditionError(base::ToAbsl(
        fmt::format("slot {}: written while a read or write of it is in flight", job.slot)));
  }
  GiveBack(job.slot);
  const std::optional<Place> place = TakePlace(job);
  if (place.has_value()) return *place;
  return absl::ResourceExhaustedError(base::ToAbsl(
      fmt::format("slot {}: no drive has room, those that failed take no pages", job.slot)));
}

/// The drive whose turn it is among those that may take a page; none when there is none.
std::optional<std::uint32_t> DriveSet::ChooseDrive(const std::vector<bool>& refused) const {
  std::optional<std::uint32_t> chosen;
  for (std::uint32_t i = 0; i < drives_.size(); ++i) {
    const Drive& drive = drives_[i];
    if (drive.fenced || drive.free.empty() || refused[i]) continue;
    if (!chosen || drive.meter.turn() < drives_[*chosen].meter.turn()) chosen = i;
  }
  return chosen;
}

std::optional<Place> DriveSet::TakePlace(const WriteJob& job) {
  const std::optional<std::uint32_t> chosen = ChooseDrive(job.refused);
  if (!chosen.has_value()) return std::nullopt;
  Drive& drive = drives_[*chosen];
  const double first = drive.meter.turn();
  const std::uint64_t bytes = options_.store.page_bytes;
  const double rate = drive.meter.RateAt(Clock::now(), bytes);
  drive.meter.TakeTurn(first, static_cast<double>(bytes) / (rate > 0 ? rate : kUnknownRate));
  for (Drive& each : drives_) each.meter.TakeTurn(first, 0);
  const Place place{.drive = *chosen, .slot = drive.free.back(), .users = 1, .taken = true};
  drive.free.pop_back();
  drive.meter.Begin(Clock::now());
  places_[job.slot] = place;
  return place;
}

void DriveSet::GiveBack(SlotIndex slot) {
  Place& place = places_[slot];
  if (!place.taken) return;
  Drive& drive = drives_[place.drive];
  drive.store->Forget(place.slot);
  drive.free.push_back(place.slot);
  place = Place{};
}

void DriveSet::LeavePlace(SlotIndex slot) {
  Place& place = places_[slot];
  const bool in_use = --place.users > 0 && !SLUICE_MUTANT("free-early");
  if (!in_use && place.forgotten) GiveBack(slot);
}

void DriveSet::WriteAt(const Place& place, WriteJob job) {
  PageStore& store = *drives_[place.drive].store;
  const PageIdentity identity = job.identity;
  const std::span<const std::byte> data = job.data;
  store.Write(
      place.slot, identity, data, [this, place, job = std::move(job)](absl::Status status) mutable {
        OnWritten(place, std::move(job), std::move(status));
      });
}

void DriveSet::OnWritten(const Place& place, WriteJob job, absl::Status status) {
  std::optional<FencedDrive> fenced;
  std::optional<Place> elsewhere;
  {
    base::MutexLock lock(mutex_);
    drives_[place.drive].meter.End(status.ok() ? options_.store.page_bytes : 0, Clock::now());
    fenced = NoteOutcome(place.drive, status, &drives_[place.drive].write_errors);
    elsewhere = Elsewhere(job, place, status);
  }
  Tell(std::move(fenced));
  if (elsewhere.has_value()) return WriteAt(*elsewhere, std::move(job));
  Finish(OnDrive(place, status), std::move(job.done));
}

/// Ends the write at `place`; another place for it when that one refused it.
std::optional<Place> DriveSet::Elsewhere(WriteJob& job,
                                         const Place& place,
                                         const absl::Status& status) {
  const bool again = !status.ok() && OthersMayTake(status) && !places_[job.slot].forgotten;
  (status.ok() ? places_[job.slot].holds : places_[job.slot].forgotten) = true;
  LeavePlace(job.slot);
  job.refused[place.drive] = true;
  return again && !SLUICE_MUTANT("no-other-drive") ? TakePlace(job) : std::nullopt;
}

absl::StatusOr<Place> DriveSet::BeginRead(SlotIndex slot) {
  SLUICE_RETURN_IF_ERROR(CheckSlot(slot));
  base::MutexLock lock(mutex_);
  Place& place = places_[slot];
  if (!place.taken || place.forgotten) {
    return absl::NotFoundError(
        base::ToAbsl(fmt::format("slot {}: holds no acknowledged page", slot)));
  }
  ++place.users;
  drives_[place.drive].meter.Begin(Clock::now());
  return place;
}

void DriveSet::Read(SlotIndex slot,
                    const PageIdentity& identity,
                    std::span<std::byte> data,
                    DoneFn done) {
  admission_.Enter();
  absl::StatusOr<Place> place = BeginRead(slot);
  if (!place.ok()) return Refuse(std::move(place).status(), std::move(done));
  drives_[place->drive].store->Read(
      place->slot,
      identity,
      data,
      [this, place = *place, slot, done = std::move(done)](const absl::Status& status) mutable {
        OnRead(place, slot, status);
        Finish(OnDrive(place, status), std::move(done));
      });
}

void DriveSet::OnRead(const Place& place, SlotIndex slot, const absl::Status& status) {
  std::optional<FencedDrive> fenced;
  {
    base::MutexLock lock(mutex_);
    drives_[place.drive].meter.End(status.ok() ? options_.store.page_bytes : 0, Clock::now());
    fenced = NoteOutcome(place.drive, status, &drives_[place.drive].read_errors);
    LeavePlace(slot);
  }
  Tell(std::move(fenced));
}

std::optional<FencedDrive> DriveSet::NoteOutcome(std::uint32_t drive,
                                                 const absl::Status& status,
                                                 int* errors) {
  if (status.ok()) *errors = 0;
  if (!SpeaksAgainstDrive(status) || drives_[drive].fenced) return std::nullopt;
  if (++*errors < options_.errors_to_fence || SLUICE_MUTANT("never-fence")) return std::nullopt;
  return Fence(drive, status);
}

FencedDrive DriveSet::Fence(std::uint32_t drive, const absl::Status& cause) {
  drives_[drive].fenced = true;
  const std::string times = fmt::format("{} errors in a row, the last", options_.errors_to_fence);
  FencedDrive fenced{
      .directory = drives_[drive].directory, .slots = {}, .cause = base::Annotate(cause, times)};
  for (SlotIndex slot = 0; slot < places_.size(); ++slot) {
    const Place& place = places_[slot];
    if (place.holds && place.drive == drive && !place.forgotten) fenced.slots.push_back(slot);
  }
  return fenced;
}

void DriveSet::Tell(std::optional<FencedDrive> fenced) const {
  if (fenced.has_value() && options_.on_fenced) options_.on_fenced(*std::move(fenced));
}

/// Names the drive; the slot that the status may name is the drive's own.
absl::Status DriveSet::OnDrive(const Place& place, const absl::Status& status) const {
  return status.ok() ? status : base::Annotate(status, "drive " + drives_[place.drive].directory);
}

void DriveSet::Refuse(absl::Status status, DoneFn done) {
  auto job = [this, status = std::move(status), done = std::move(done)]() mutable {
    Finish(std::move(status), std::move(done));
  };
  if (ScopedThreadRole::Current() == ThreadRole::kWorker) return std::move(job)();
  workers_.Submit([job = std::move(job)]() mutable {
    const ScopedThreadRole scope(ThreadRole::kWorker);
    std::move(job)();
  });
}

void DriveSet::Finish(absl::Status status, DoneFn done) {
  std::move(done)(std::move(status));
  admission_.Leave();  // last: the set may be gone afterwards
}

void DriveSet::Hasten(SlotIndex slot) {
  base::MutexLock lock(mutex_);
  const Place& place = places_[slot];
  if (place.users > 0) drives_[place.drive].store->Hasten(place.slot);
}

void DriveSet::Forget(SlotIndex slot) {
  SLUICE_CHECK(slot < options_.store.slots, "a slot that is forgotten is one of the store's");
  base::MutexLock lock(mutex_);
  Place& place = places_[slot];
  place.forgotten = place.taken;
  if (place.users == 0) {
    GiveBack(slot);
  } else {
    drives_[place.drive].store->Forget(place.slot);
  }
}

PageStoreStats DriveSet::stats() const {
  base::MutexLock lock(mutex_);
  PageStoreStats sum = drives_[0].store->stats();
  sum.drives.clear();
  for (std::size_t i = 0; i < drives_.size(); ++i) {
    const Drive& drive = drives_[i];
    const PageStoreStats stats = drive.store->stats();
    sum.drives.push_back({.directory = drive.directory,
                          .reads = stats.reads,
                          .writes = stats.writes,
                          .bytes_per_second = drive.meter.rate(),
                          .fenced = drive.fenced});
    if (i > 0) sum.Add(stats);
  }
  return sum;
}

}  // namespace

SlotIndex SlotsOfDrive(const DriveSetOptions& options) {
  const auto drives = static_cast<SlotIndex>(options.directories.size());
  return (options.store.slots + drives - 1) / drives;
}

std::unique_ptr<PageStore> AssembleDriveSet(const DriveSetOptions& options,
                                            std::vector<std::unique_ptr<PageStore>> stores,
                                            base::WorkerPool& workers) {
  SLUICE_CHECK(!stores.empty() && stores.size() == options.directories.size(),
               "a drive set has a store for every directory");
  return std::make_unique<DriveSet>(options, std::move(stores), workers);
}

absl::StatusOr<std::unique_ptr<PageStore>> CreateDriveSet(const DriveSetOptions& options,
                                                          base::WorkerPool& workers) {
  std::vector<std::unique_ptr<PageStore>> stores;
  for (const std::string& directory : options.directories) {
    PageStoreOptions drive = options.store;
    drive.directory = directory;
    drive.slots = SlotsOfDrive(options);
    SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<PageStore> store, PageStore::Create(drive, workers));
    stores.push_back(std::move(store));
  }
  return AssembleDriveSet(options, std::move(stores), workers);
}

}  // namespace sluice::io
