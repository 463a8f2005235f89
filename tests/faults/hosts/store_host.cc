#include "tests/faults/hosts/store_host.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/strings.h"

namespace sluice::faults {

std::string ToString(Medium medium) {
  switch (medium) {
    case Medium::kVirtual:
      return "virtual";
    case Medium::kUring:
      return "io_uring";
    case Medium::kThreads:
      return "threads";
  }
  return "";
}

io::PageStoreOptions StoreHost::StoreOptions() const {
  return {.page_bytes = options_.page_bytes,
          .slots = options_.slots,
          .queue_depth = options_.disk.in_flight_max};
}

void StoreHost::Open(io::DriveSetOptions set, base::Timer* late, base::WorkerPool& workers) {
  directories_ = set.directories;
  set.on_fenced = [this](io::FencedDrive fenced) { OnFenced(std::move(fenced)); };
  const absl::Status opened = OpenDrives(set, late, workers);
  if (opened.ok()) return;
  unavailable_ = std::string(base::ToStd(opened.message()));
  SLUICE_CHECK(absl::IsFailedPrecondition(opened), unavailable_.c_str());
}

/// Drives as io::CreateDriveSet makes them. One drive is the store itself.
absl::Status StoreHost::OpenDrives(const io::DriveSetOptions& set,
                                   base::Timer* late,
                                   base::WorkerPool& workers) {
  std::vector<std::unique_ptr<io::PageStore>> drives;
  for (const io::PageStoreOptions& options : io::OptionsOfDrives(set)) {
    SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<io::PageStore> drive,
                            OpenDrive(options, late, workers));
    drives.push_back(std::move(drive));
  }
  store_ = drives.size() == 1 ? std::move(drives[0])
                              : io::AssembleDriveSet(set, std::move(drives), workers);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<io::PageStore>> StoreHost::OpenDrive(
    const io::PageStoreOptions& options, base::Timer* late, base::WorkerPool& workers) {
  const auto number = static_cast<std::uint32_t>(watched_.size());
  SLUICE_ASSIGN_OR_RETURN(io::PageStoreParts parts, MakeParts(options));
  if (number == 0) parts.engine = MakeFaulty(std::move(parts.engine), late);
  const auto writes = std::make_shared<WritesToCome>();
  parts.engine = std::make_unique<WatchedEngine>(
      std::move(parts.engine), WatchedEngine::Parts{number, options.page_bytes, &ledger_, writes});
  auto drive =
      std::make_unique<WatchedDrive>(io::AssemblePageStore(options, std::move(parts), workers),
                                     WatchedDrive::Parts{number, &ledger_, writes});
  watched_.push_back(drive.get());
  return drive;
}

std::unique_ptr<io::IoEngine> StoreHost::MakeFaulty(std::unique_ptr<io::IoEngine> upstream,
                                                    base::Timer* late) {
  testing::FaultHooks hooks = options_.hooks;
  hooks.timer = late;
  // A waiter for the held completion looks again after this job.
  hooks.on_held = [this] { executor().Post([] {}); };
  auto faulty = std::make_unique<testing::FaultyEngine>(
      std::move(upstream), options_.plan, options_.page_bytes, std::move(hooks));
  engine_ = faulty.get();
  return faulty;
}

/// The call is on a thread of the store. With several threads, a write may be in flight to the
/// drive.
void StoreHost::OnFenced(io::FencedDrive fenced) {
  if (options_.medium == Medium::kVirtual) {
    const auto at = std::find(directories_.begin(), directories_.end(), fenced.directory);
    watched_[static_cast<std::size_t>(at - directories_.begin())]->NoteFenced();
  }
  executor().Post([this, fenced = std::move(fenced)] { options_.on_fenced(fenced); });
}

std::unique_ptr<StoreHost> MakeStoreHost(const StoreHostOptions& options, SlotLedger& ledger) {
  return options.medium == Medium::kVirtual ? MakeVirtualHost(options, ledger)
                                            : MakeRealHost(options, ledger);
}

}  // namespace sluice::faults
