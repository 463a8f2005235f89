#include "io/store/page_store.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>
#include <memory>
#include <utility>

#include "base/check.h"
#include "base/mutex.h"
#include "base/owner_process.h"
#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "io/store/admission.h"
#include "io/store/page_operation.h"
#include "io/store/page_store_parts.h"

namespace sluice::io {
namespace {

absl::Status OfAnotherProcess() {
  return absl::FailedPreconditionError(
      "a page store works in the process that made it: a child of fork has neither its threads nor "
      "its memory and makes a store of its own");
}

class FilePageStore final : public PageStore {
 public:
  FilePageStore(const PageStoreOptions& options, PageStoreParts parts, base::WorkerPool& workers);
  ~FilePageStore() override { context_.admission.Drain(); }

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
  void RegisterMemory(std::span<std::byte> memory) override;
  void UnregisterMemory(std::span<std::byte> memory) override;
  absl::StatusOr<FilePart> FindPart(SlotIndex slot) const override;
  absl::Status CheckMappable() const override;
  PageStoreStats stats() const override;

 private:
  absl::Status CheckPage(SlotIndex slot, std::span<const std::byte> data) const;
  bool OfThisProcess() const;
  void Refuse(absl::Status status, DoneFn done);

  const base::OwnerProcess owner_;
  const PageStoreOptions options_;
  const std::string engine_reason_;
  const std::string directory_;
  const std::shared_ptr<const SpillFiles> files_;
  const std::unique_ptr<IoEngine> engine_;
  const std::unique_ptr<base::Timer> timer_;
  StoreContext context_;
  mutable base::Mutex registered_mutex_;
  /// Outcome of each registration, by the address of its range.
  std::map<const std::byte*, RegisteredMemory> registered_ ABSL_GUARDED_BY(registered_mutex_);
};

FilePageStore::FilePageStore(const PageStoreOptions& options,
                             PageStoreParts parts,
                             base::WorkerPool& workers)
    : options_(options),
      engine_reason_(std::move(parts.engine_reason)),
      directory_(std::move(parts.directory)),
      files_(parts.files != nullptr ? std::move(parts.files)
                                    : std::make_shared<const SpillFiles>(SpillFiles::WithoutFile(
                                          options.page_bytes * PlacesOf(options)))),
      engine_(std::move(parts.engine)),
      timer_(parts.timer ? std::move(parts.timer)
                         : std::make_unique<base::Timer>("sluice-io-retry", options.cpus)),
      context_{.engine = *engine_,
               .files = *files_,
               .workers = workers,
               .page_bytes = options.page_bytes,
               .backoff = options.backoff,
               .marks_errors = options.marks_errors,
               .timer = *timer_,
               .write_backs = std::vector<WriteBackLine>(files_->files().size()),
               .slots = SlotTable(options.slots, PlacesOf(options)),
               .admission = Admission(options.operations_max)} {}

void FilePageStore::Write(SlotIndex slot,
                          const PageIdentity& identity,
                          std::span<const std::byte> data,
                          DoneFn done) {
  if (!OfThisProcess()) return std::move(done)(OfAnotherProcess());
  context_.admission.Enter();
  absl::Status status = CheckPage(slot, data);
  if (!status.ok()) return Refuse(std::move(status), std::move(done));
  absl::StatusOr<SlotIndex> place = context_.slots.BeginWrite(slot);
  if (!place.ok()) return Refuse(std::move(place).status(), std::move(done));
  StartWrite(context_, {slot, *place, identity}, data, std::move(done));
}

void FilePageStore::Read(SlotIndex slot,
                         const PageIdentity& identity,
                         std::span<std::byte> data,
                         DoneFn done) {
  if (!OfThisProcess()) return std::move(done)(OfAnotherProcess());
  context_.admission.Enter();
  absl::Status status = CheckPage(slot, data);
  if (!status.ok()) return Refuse(std::move(status), std::move(done));
  absl::StatusOr<SlotTable::StoredPage> stored = context_.slots.BeginRead(slot, identity);
  if (!stored.ok()) return Refuse(std::move(stored).status(), std::move(done));
  StartRead(context_, {slot, stored->place, identity}, stored->checksum, data, std::move(done));
}

bool FilePageStore::OfThisProcess() const { return owner_.IsThis(); }

void FilePageStore::Hasten(SlotIndex slot) {
  SLUICE_CHECK(slot < options_.slots, "a slot that is hastened is one of the store's");
  // The flag is set first, so that requests queued from now on see it.
  const std::optional<SlotIndex> place = context_.slots.Hasten(slot);
  if (!place.has_value()) return;
  const SpillFiles::FileOffset part = files_->At(options_.page_bytes * *place);
  engine_->Hasten(*part.file, part.offset, options_.page_bytes);
}

void FilePageStore::Forget(SlotIndex slot) {
  SLUICE_CHECK(slot < options_.slots, "a slot that is forgotten is one of the store's");
  context_.slots.Forget(slot);
}

void FilePageStore::RegisterMemory(std::span<std::byte> memory) {
  RegisteredMemory registered = engine_->RegisterMemory(memory);
  base::MutexLock lock(registered_mutex_);
  registered_[memory.data()] = std::move(registered);
}

void FilePageStore::UnregisterMemory(std::span<std::byte> memory) {
  engine_->UnregisterMemory(memory);
  base::MutexLock lock(registered_mutex_);
  registered_.erase(memory.data());
}

absl::Status FilePageStore::CheckPage(SlotIndex slot, std::span<const std::byte> data) const {
  if (slot >= options_.slots) {
    return absl::InvalidArgumentError(
        base::ToAbsl(fmt::format("slot {}: the store has {} slots", slot, options_.slots)));
  }
  if (data.size() != options_.page_bytes) {
    return absl::InvalidArgumentError(base::ToAbsl(fmt::format(
        "slot {}: {} bytes given, a page has {}", slot, data.size(), options_.page_bytes)));
  }
  if (reinterpret_cast<std::uintptr_t>(data.data()) % kIoAlignment != 0) {
    return absl::InvalidArgumentError(
        base::ToAbsl(fmt::format("slot {}: the buffer is not aligned to {}", slot, kIoAlignment)));
  }
  return absl::OkStatus();
}

absl::StatusOr<PageStore::FilePart> FilePageStore::FindPart(SlotIndex slot) const {
  SLUICE_CHECK(slot < options_.slots, "a slot that is looked for is one of the store's");
  SLUICE_ASSIGN_OR_RETURN(const SlotIndex place, context_.slots.FindPlace(slot));
  const SpillFiles::FileOffset part = files_->At(options_.page_bytes * place);
  return FilePart{part.file->fd, part.offset};
}

absl::Status FilePageStore::CheckMappable() const {
  const auto system_page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  if (options_.page_bytes % system_page != 0) {
    return absl::UnimplementedError(
        base::ToAbsl(fmt::format("slots of {} bytes are no whole pages of the system's {}",
                                 options_.page_bytes,
                                 system_page)));
  }
  for (const IoFile& file : files_->files()) {
    if (file.fd < 0) return absl::UnimplementedError("the store has no files");
    void* const mapped = mmap(nullptr, system_page, PROT_READ, MAP_SHARED, file.fd, 0);
    if (mapped == MAP_FAILED) return base::StatusFromErrno(errno, "mmap of a spill file");
    munmap(mapped, system_page);
  }
  return absl::OkStatus();
}

void FilePageStore::Refuse(absl::Status status, DoneFn done) {
  RunOnWorker(context_, [this, status = std::move(status), done = std::move(done)]() mutable {
    CallDone(context_, std::move(status), std::move(done));
    context_.admission.Leave();
  });
}

PageStoreStats FilePageStore::stats() const {
  const auto load = [](const std::atomic<std::uint64_t>& counter) {
    return counter.load(std::memory_order_relaxed);
  };
  PageStoreStats stats;
  stats.engine = std::string(engine_->name());
  stats.engine_reason = engine_reason_;
  stats.engine_features = engine_->features();
  stats.merged = engine_->merged();
  stats.direct_reason = files_->direct_reason();
  stats.direct = stats.direct_reason.empty();
  stats.nocow_reason = files_->nocow_reason();
  stats.nocow = stats.nocow_reason.empty();
  stats.reserved_space_reason = files_->reserved_space_reason();
  stats.reserved_space = stats.reserved_space_reason.empty();
  stats.reads = load(context_.counters.reads);
  stats.writes = load(context_.counters.writes);
  stats.short_io = load(context_.counters.transfer.short_io);
  stats.retries = load(context_.counters.transfer.retries);
  stats.checksum_failures = load(context_.counters.checksum_failures);
  stats.retired = context_.slots.retired();
  stats.drives = {{.directory = directory_,
                   .reads = stats.reads,
                   .writes = stats.writes,
                   .places = PlacesOf(options_),
                   .retired = stats.retired,
                   .bytes_per_second = context_.meter.rate()}};
  base::MutexLock lock(registered_mutex_);
  for (const auto& [address, memory] : registered_) {
    stats.registered_bytes += memory.bytes;
    if (!memory.reason.empty()) stats.registered_reason = memory.reason;
  }
  return stats;
}

std::string JoinReasons(const std::string& first, const std::string& second) {
  return first.empty() || second.empty() ? first + second : first + "; " + second;
}

}  // namespace

absl::StatusOr<PageStore::FilePart> PageStore::FindPart(SlotIndex) const {
  return absl::UnimplementedError("this store has no files to map");
}

absl::Status PageStore::CheckMappable() const {
  return absl::UnimplementedError("this store has no files to map");
}

void PageStoreStats::Add(const PageStoreStats& other) {
  if (engine_reason.empty()) {
    engine = other.engine;
    engine_reason = other.engine_reason;
    engine_features = other.engine_features;
  }
  direct = direct && other.direct;
  direct_reason = JoinReasons(direct_reason, other.direct_reason);
  nocow = nocow && other.nocow;
  nocow_reason = JoinReasons(nocow_reason, other.nocow_reason);
  reserved_space = reserved_space && other.reserved_space;
  reserved_space_reason = JoinReasons(reserved_space_reason, other.reserved_space_reason);
  // Every drive registers the same memory.
  registered_bytes = std::min(registered_bytes, other.registered_bytes);
  if (registered_reason.empty()) registered_reason = other.registered_reason;
  reads += other.reads;
  writes += other.writes;
  short_io += other.short_io;
  merged += other.merged;
  retries += other.retries;
  checksum_failures += other.checksum_failures;
  retired += other.retired;
  drives.insert(drives.end(), other.drives.begin(), other.drives.end());
}

std::unique_ptr<PageStore> AssemblePageStore(const PageStoreOptions& options,
                                             PageStoreParts parts,
                                             base::WorkerPool& workers) {
  SLUICE_CHECK(CheckPageStoreOptions(options).ok(), "a store is assembled from checked options");
  return std::make_unique<FilePageStore>(options, std::move(parts), workers);
}

}  // namespace sluice::io
