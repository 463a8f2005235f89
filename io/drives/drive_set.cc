#include "io/drives/drive_set.h"

#include <optional>
#include <utility>

#include "base/check.h"
#include "base/cond_var.h"
#include "base/mutex.h"
#include "base/owner_process.h"
#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "io/store/admission.h"
#include "io/store/medium_fault.h"

namespace sluice::io {
namespace {

DrivePlaces MakePlaces(const DriveSetOptions& options) {
  DrivePlacesOptions places{.slots = options.store.slots,
                            .directories = options.directories,
                            .places = {},
                            .errors_to_fence = options.errors_to_fence};
  for (const PageStoreOptions& drive : OptionsOfDrives(options)) {
    places.places.push_back(drive.places);
  }
  const std::size_t drives = places.places.size();
  return DrivePlaces(std::move(places),
                     DriveShares(drives, options.store.page_bytes, options.rates));
}

class DriveSet final : public PageStore {
 public:
  DriveSet(const DriveSetOptions& options,
           std::vector<std::unique_ptr<PageStore>> stores,
           base::WorkerPool& workers)
      : options_(options),
        workers_(workers),
        admission_(options.store.operations_max),
        places_(MakePlaces(options)),
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
  absl::StatusOr<std::uint32_t> BeginRead(SlotIndex slot);
  void StartWrite(WriteJob job);
  void OnWritten(WriteJob job, absl::Status status);
  DrivePlaces::WriteEnd EndWrite(WriteAttempt* attempt, const absl::Status& status);
  void OnRead(SlotIndex slot, const absl::Status& status);
  void EndStart(SlotIndex slot);
  void ForgetPage(SlotIndex slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void HastenOnItsWay(SlotIndex slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Tell(std::optional<FencedDrive> fenced) const;
  absl::Status OnDrive(std::uint32_t drive, absl::Status status) const;
  std::string NameOf(std::uint32_t drive) const { return "drive " + options_.directories[drive]; }
  void Refuse(absl::Status status, DoneFn done);
  void Finish(absl::Status status, DoneFn done);

  /// A child of fork finds locks that are held for ever: it asks a store, which refuses it.
  const base::OwnerProcess owner_;
  const DriveSetOptions options_;
  base::WorkerPool& workers_;
  Admission admission_;
  mutable base::Mutex mutex_;
  DrivePlaces places_ ABSL_GUARDED_BY(mutex_);
  base::CondVar started_;
  /// Writes whose call has not ended. Such a write may be done, and its buffers gone.
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
  SLUICE_RETURN_IF_ERROR(places_.CheckWrite(slot));
  ForgetPage(slot);
  absl::StatusOr<WriteAttempt> attempt = places_.BeginWrite(slot, options_.now());
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
  PageStore& store = *stores_[job.attempt.drive];
  const PageIdentity identity = job.identity;
  const std::span<const std::byte> data = job.data;
  store.Write(slot, identity, data, [this, job = std::move(job)](absl::Status status) mutable {
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
  const std::uint32_t drive = job.attempt.drive;
  DrivePlaces::WriteEnd end = EndWrite(&job.attempt, status);
  Tell(std::move(end.fenced));
  if (end.again) return StartWrite(std::move(job));
  Finish(OnDrive(drive, std::move(status)), std::move(job.done));
}

DrivePlaces::WriteEnd DriveSet::EndWrite(WriteAttempt* attempt, const absl::Status& status) {
  base::MutexLock lock(mutex_);
  const std::uint32_t drive = attempt->drive;
  DrivePlaces::WriteEnd end = places_.EndWrite(attempt, status, options_.now());
  if (!end.again) return end;
  ++starting_;
  // The drive took the page, and had failed: the page's place is the other one.
  if (status.ok()) stores_[drive]->Forget(attempt->slot);
  return end;
}

absl::StatusOr<std::uint32_t> DriveSet::BeginRead(SlotIndex slot) {
  base::MutexLock lock(mutex_);
  return places_.BeginRead(slot, options_.now());
}

void DriveSet::Read(SlotIndex slot,
                    const PageIdentity& identity,
                    std::span<std::byte> data,
                    DoneFn done) {
  if (!owner_.IsThis()) return stores_[0]->Read(slot, identity, data, std::move(done));
  admission_.Enter();
  absl::StatusOr<std::uint32_t> drive = BeginRead(slot);
  if (!drive.ok()) return Refuse(std::move(drive).status(), std::move(done));
  stores_[*drive]->Read(
      slot,
      identity,
      data,
      [this, drive = *drive, slot, done = std::move(done)](absl::Status status) mutable {
        OnRead(slot, status);
        Finish(OnDrive(drive, std::move(status)), std::move(done));
      });
}

void DriveSet::OnRead(SlotIndex slot, const absl::Status& status) {
  std::optional<FencedDrive> fenced;
  {
    base::MutexLock lock(mutex_);
    fenced = places_.EndRead(slot, status, options_.now());
  }
  Tell(std::move(fenced));
}

void DriveSet::Tell(std::optional<FencedDrive> fenced) const {
  if (fenced.has_value() && options_.on_fenced) options_.on_fenced(*std::move(fenced));
}

absl::Status DriveSet::OnDrive(std::uint32_t drive, absl::Status status) const {
  if (status.ok()) return status;
  Unmark(&status);
  return base::Annotate(status, NameOf(drive));
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
  places_.Hasten(slot);
  HastenOnItsWay(slot);
}

/// The set lives as long as the write is in flight, and the write cannot end before the lock is
/// free.
void DriveSet::HastenOnItsWay(SlotIndex slot) {
  const std::optional<std::uint32_t> drive = places_.FindHastened(slot);
  if (drive.has_value()) stores_[*drive]->Hasten(slot);
}

void DriveSet::Forget(SlotIndex slot) {
  SLUICE_CHECK(slot < options_.store.slots, "a slot that is forgotten is one of the store's");
  base::MutexLock lock(mutex_);
  ForgetPage(slot);
}

/// The lock is held throughout: the drive has the room again when the set counts on it.
void DriveSet::ForgetPage(SlotIndex slot) {
  const std::optional<std::uint32_t> drive = places_.FindDrive(slot);
  if (drive.has_value()) stores_[*drive]->Forget(slot);
  places_.Forget(slot);
}

absl::StatusOr<PageStore::FilePart> DriveSet::FindPart(SlotIndex slot) const {
  std::optional<std::uint32_t> drive;
  {
    base::MutexLock lock(mutex_);
    drive = places_.FindAcknowledged(slot);
  }
  if (drive.has_value()) return stores_[*drive]->FindPart(slot);
  return absl::NotFoundError(
      base::ToAbsl(fmt::format("slot {}: holds no acknowledged page", slot)));
}

absl::Status DriveSet::CheckMappable() const {
  for (std::uint32_t i = 0; i < stores_.size(); ++i) {
    absl::Status status = stores_[i]->CheckMappable();
    if (!status.ok()) return OnDrive(i, std::move(status));
  }
  return absl::OkStatus();
}

PageStoreStats DriveSet::stats() const {
  base::MutexLock lock(mutex_);
  PageStoreStats sum;
  for (std::uint32_t i = 0; i < stores_.size(); ++i) {
    PageStoreStats stats = stores_[i]->stats();
    for (std::string* reason :
         {&stats.direct_reason, &stats.nocow_reason, &stats.reserved_space_reason}) {
      if (!reason->empty()) *reason = NameOf(i) + ": " + *reason;
    }
    DriveStats& drive = stats.drives.at(0);
    drive.bytes_per_second = places_.shares().rate(i);
    drive.bytes_per_second_at_start = places_.shares().rate_at_start(i);
    drive.fenced = places_.fenced(i);
    if (i == 0) {
      sum = std::move(stats);
    } else {
      sum.Add(stats);
    }
  }
  return sum;
}

}  // namespace

std::unique_ptr<PageStore> AssembleDriveSet(const DriveSetOptions& options,
                                            std::vector<std::unique_ptr<PageStore>> stores,
                                            base::WorkerPool& workers) {
  SLUICE_CHECK(stores.size() > 1 && stores.size() == options.directories.size(),
               "a drive set has several drives, and a store for each");
  return std::make_unique<DriveSet>(options, std::move(stores), workers);
}

}  // namespace sluice::io
