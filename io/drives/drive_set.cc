#include "io/drives/drive_set.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/cond_var.h"
#include "base/mutex.h"
#include "base/owner_process.h"
#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "io/drives/drive_ledger.h"
#include "io/drives/drive_rates.h"
#include "io/drives/drive_shares.h"
#include "io/file/spill_directory.h"
#include "io/store/admission.h"
#include "io/store/medium_fault.h"
#include "io/store/page_store_parts.h"

namespace sluice::io {
namespace {

class DriveSet final : public PageStore {
 public:
  DriveSet(const DriveSetOptions& options,
           std::vector<std::unique_ptr<PageStore>> stores,
           base::WorkerPool& workers)
      : options_(options),
        workers_(workers),
        admission_(options.store.operations_max),
        ledger_(options),
        stores_(std::move(stores)) {}
  ~DriveSet() override;

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
  void RegisterMemory(std::span<std::byte> memory) override {
    for (const auto& store : stores_) store->RegisterMemory(memory);
  }
  void UnregisterMemory(std::span<std::byte> memory) override {
    for (const auto& store : stores_) store->UnregisterMemory(memory);
  }
  absl::StatusOr<FilePart> FindPart(SlotIndex slot) const override;
  absl::Status CheckMappable() const override;
  PageStoreStats stats() const override;

 private:
  struct WriteJob {
    WriteAttempt attempt;
    PageIdentity identity;
    std::span<const std::byte> data;
    DoneFn done;
  };

  absl::StatusOr<WriteAttempt> BeginWrite(SlotIndex slot);
  absl::StatusOr<Place> BeginRead(SlotIndex slot);
  void StartWrite(WriteJob job);
  void OnWritten(WriteJob job, absl::Status status);
  void OnRead(const Place& place, SlotIndex slot, const absl::Status& status);
  void EndStart(SlotIndex slot);
  void HastenOnItsWay(SlotIndex slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Tell(std::optional<FencedDrive> fenced) const;
  absl::Status OnDrive(const Place& place, absl::Status status) const;
  void Refuse(absl::Status status, DoneFn done);
  void Finish(absl::Status status, DoneFn done);

  /// A child of fork finds locks that are held for ever: it asks a store, which refuses it.
  const base::OwnerProcess owner_;
  const DriveSetOptions options_;
  base::WorkerPool& workers_;
  Admission admission_;
  mutable base::Mutex mutex_;
  DriveLedger ledger_ ABSL_GUARDED_BY(mutex_);
  base::CondVar started_;
  /// Writes whose call has not got to its end: they may be done, and all they are part of gone.
  std::uint32_t starting_ ABSL_GUARDED_BY(mutex_) = 0;
  const std::vector<std::unique_ptr<PageStore>> stores_;
};

DriveSet::~DriveSet() {
  admission_.Drain();
  base::MutexLock lock(mutex_);
  while (starting_ > 0) started_.Wait(mutex_);
}

absl::StatusOr<WriteAttempt> DriveSet::BeginWrite(SlotIndex slot) {
  base::MutexLock lock(mutex_);
  absl::StatusOr<WriteAttempt> attempt = ledger_.BeginWrite(slot, options_.now());
  if (attempt.ok()) ++starting_;
  return attempt;
}

void DriveSet::Write(SlotIndex slot,
                     const PageIdentity& identity,
                     std::span<const std::byte> data,
                     DoneFn done) {
  if (!owner_.IsThis()) return stores_[0]->Write(slot, identity, data, std::move(done));
  admission_.Enter();
  absl::StatusOr<WriteAttempt> attempt = BeginWrite(slot);
  if (!attempt.ok()) return Refuse(std::move(attempt).status(), std::move(done));
  StartWrite({*std::move(attempt), identity, data, std::move(done)});
}

void DriveSet::StartWrite(WriteJob job) {
  const SlotIndex slot = job.attempt.slot;
  const Place place = job.attempt.place;
  const PageIdentity identity = job.identity;
  const std::span<const std::byte> data = job.data;
  stores_[place.drive]->Write(
      place.slot, identity, data, [this, job = std::move(job)](absl::Status status) mutable {
        OnWritten(std::move(job), std::move(status));
      });
  EndStart(slot);
}

/// The write may have been hastened on another drive, or before this one knew of it.
void DriveSet::EndStart(SlotIndex slot) {
  base::MutexLock lock(mutex_);
  HastenOnItsWay(slot);
  if (--starting_ == 0) started_.NotifyAll();  // under the lock: the set may be gone afterwards
}

void DriveSet::OnWritten(WriteJob job, absl::Status status) {
  const Place place = job.attempt.place;
  DriveLedger::WriteEnd end;
  {
    base::MutexLock lock(mutex_);
    end = ledger_.EndWrite(&job.attempt, status, options_.now());
    if (end.again) ++starting_;
  }
  Tell(std::move(end.fenced));
  if (end.again) return StartWrite(std::move(job));
  Finish(OnDrive(place, std::move(status)), std::move(job.done));
}

absl::StatusOr<Place> DriveSet::BeginRead(SlotIndex slot) {
  base::MutexLock lock(mutex_);
  return ledger_.BeginRead(slot, options_.now());
}

void DriveSet::Read(SlotIndex slot,
                    const PageIdentity& identity,
                    std::span<std::byte> data,
                    DoneFn done) {
  if (!owner_.IsThis()) return stores_[0]->Read(slot, identity, data, std::move(done));
  admission_.Enter();
  absl::StatusOr<Place> place = BeginRead(slot);
  if (!place.ok()) return Refuse(std::move(place).status(), std::move(done));
  stores_[place->drive]->Read(
      place->slot,
      identity,
      data,
      [this, place = *place, slot, done = std::move(done)](absl::Status status) mutable {
        OnRead(place, slot, status);
        Finish(OnDrive(place, std::move(status)), std::move(done));
      });
}

void DriveSet::OnRead(const Place& place, SlotIndex slot, const absl::Status& status) {
  std::optional<FencedDrive> fenced;
  {
    base::MutexLock lock(mutex_);
    fenced = ledger_.EndRead(slot, place, status, options_.now());
  }
  Tell(std::move(fenced));
}

void DriveSet::Tell(std::optional<FencedDrive> fenced) const {
  if (fenced.has_value() && options_.on_fenced) options_.on_fenced(*std::move(fenced));
}

/// Names the drive where there are several; the slot that the status may name is the drive's own.
absl::Status DriveSet::OnDrive(const Place& place, absl::Status status) const {
  Unmark(&status);
  if (status.ok() || stores_.size() == 1) return status;
  return base::Annotate(status, "drive " + options_.directories[place.drive]);
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
  SLUICE_CHECK(slot < options_.store.slots, "a slot that is hastened is one of the store's");
  base::MutexLock lock(mutex_);
  ledger_.Hasten(slot);
  HastenOnItsWay(slot);
}

/// The set is there as long as the write is on its way, which it is until somebody has the lock.
void DriveSet::HastenOnItsWay(SlotIndex slot) {
  const std::optional<Place> place = ledger_.FindHastened(slot);
  if (place.has_value()) stores_[place->drive]->Hasten(place->slot);
}

void DriveSet::Forget(SlotIndex slot) {
  SLUICE_CHECK(slot < options_.store.slots, "a slot that is forgotten is one of the store's");
  base::MutexLock lock(mutex_);
  ledger_.Forget(slot);
}

absl::StatusOr<PageStore::FilePart> DriveSet::FindPart(SlotIndex slot) const {
  std::optional<Place> place;
  {
    base::MutexLock lock(mutex_);
    place = ledger_.FindAcknowledged(slot);
  }
  if (place.has_value()) return stores_[place->drive]->FindPart(place->slot);
  return absl::NotFoundError(
      base::ToAbsl(fmt::format("slot {}: holds no acknowledged page", slot)));
}

absl::Status DriveSet::CheckMappable() const {
  for (std::uint32_t i = 0; i < stores_.size(); ++i) {
    absl::Status status = stores_[i]->CheckMappable();
    if (!status.ok()) return OnDrive({.drive = i}, std::move(status));
  }
  return absl::OkStatus();
}

PageStoreStats DriveSet::stats() const {
  base::MutexLock lock(mutex_);
  PageStoreStats sum;
  for (std::uint32_t i = 0; i < stores_.size(); ++i) {
    PageStoreStats stats = stores_[i]->stats();
    if (stores_.size() > 1) {
      const std::string drive_name = "drive " + options_.directories[i] + ": ";
      if (!stats.direct) stats.direct_reason = drive_name + stats.direct_reason;
      if (!stats.nocow) stats.nocow_reason = drive_name + stats.nocow_reason;
      if (!stats.reserved_space) {
        stats.reserved_space_reason = drive_name + stats.reserved_space_reason;
      }
    }
    if (i == 0) {
      sum = stats;
      sum.drives.clear();
    } else {
      sum.Add(stats);
    }
    DriveStats drive = ledger_.StatsOf(i);
    drive.reads = stats.reads;
    drive.writes = stats.writes;
    sum.retired += drive.retired;
    sum.drives.push_back(std::move(drive));
  }
  return sum;
}

}  // namespace

std::vector<SlotIndex> SlotsOfDrives(const DriveSetOptions& options) {
  SLUICE_CHECK(options.rates.empty() || options.rates.size() == options.directories.size(),
               "a drive set has a rate for every directory, or none");
  const std::vector<double> even(options.directories.size(), 1);
  std::vector<SlotIndex> slots =
      DivideSlots(options.store.slots, options.rates.empty() ? even : options.rates);
  for (SlotIndex& each : slots) {
    each += std::min(SpareSlots(each), std::numeric_limits<SlotIndex>::max() - each);
  }
  return slots;
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
  DriveSetOptions named = options;
  SLUICE_RETURN_IF_ERROR(CheckPageStoreOptions(options.store));
  SLUICE_ASSIGN_OR_RETURN(const std::vector<OpenedDirectory> opened,
                          OpenSpillDirectories(options.directories));
  for (std::size_t i = 0; i < opened.size(); ++i) named.directories[i] = opened[i]->path;
  if (named.rates.empty() && opened.size() > 1) {
    SLUICE_ASSIGN_OR_RETURN(named.rates, MeasureDriveRates(options.store, opened));
  }
  const std::vector<SlotIndex> slots = SlotsOfDrives(named);
  std::vector<std::unique_ptr<PageStore>> stores;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    PageStoreOptions drive = options.store;
    drive.opened = opened[i];
    drive.slots = slots[i];
    SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<PageStore> store, PageStore::Create(drive, workers));
    stores.push_back(std::move(store));
  }
  return AssembleDriveSet(named, std::move(stores), workers);
}

}  // namespace sluice::io
