#include "bench/store/session.h"

#include <fcntl.h>

#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "bench/store/plain_loop.h"
#include "bench/store/system/free_space.h"
#include "fmt/format.h"
#include "io/file/spill_directory.h"

namespace sluice::bench {
namespace {

/// Huge pages of 2 MiB: 8 buffers of 8 MiB, and a page that fio adds to its buffers.
constexpr std::uint64_t kHugePages = 32 + 4;
/// The least size of the files: four times the 8 requests of 2 MiB.
constexpr std::uint64_t kFileBytesMin = 8 * kSizeUnit;

absl::Status CheckOptions(const StoreBenchOptions& options) {
  if (options.directory.empty()) {
    return absl::InvalidArgumentError(
        "no directory: name one on the disk to measure, for example --dir /var/tmp/bench");
  }
  if (options.rounds < 1 || options.milliseconds < 1) {
    return absl::InvalidArgumentError("rounds and milliseconds are at least 1");
  }
  if (options.file_bytes < kFileBytesMin || options.file_bytes % kSizeUnit != 0) {
    return absl::InvalidArgumentError(
        base::ToAbsl(fmt::format("--size: give a multiple of 8MiB, 64MiB at least, instead of {} "
                                 "bytes; 2GiB is usual",
                                 options.file_bytes)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<StoreSession>> StoreSession::Create(
    const StoreBenchOptions& options) {
  SLUICE_RETURN_IF_ERROR(CheckOptions(options));
  auto session = std::unique_ptr<StoreSession>(new StoreSession(options));
  SLUICE_RETURN_IF_ERROR(session->Start());
  return session;
}

absl::Status StoreSession::Start() {
  SLUICE_ASSIGN_OR_RETURN(const io::SpillDirectory directory,
                          io::OpenSpillDirectory(options_.directory));
  SLUICE_RETURN_IF_ERROR(CheckFreeSpace(directory, options_.file_bytes, "files"));
  SLUICE_RETURN_IF_ERROR(CheckIoUring());
  SLUICE_RETURN_IF_ERROR(CheckFio(options_.fio, options_.interrupted));
  ShowProgress("writing the files");
  SLUICE_ASSIGN_OR_RETURN(io::SpillFiles files,
                          io::SpillFiles::Create(directory,
                                                 {.bytes = options_.file_bytes,
                                                  .unit_bytes = kSizeUnit,
                                                  .files = FilesOf(options_.file_bytes)}));
  if (!files.direct_reason().empty()) {
    return absl::FailedPreconditionError(base::ToAbsl(
        fmt::format("{} has no O_DIRECT ({}), so the page cache would be measured: name "
                    "a directory on a disk that has it",
                    directory.path,
                    files.direct_reason())));
  }
  files_ = std::make_shared<const io::SpillFiles>(std::move(files));
  ReserveHugePages();
  return WriteOnce(*files_, options_.file_bytes, options_.interrupted);
}

void StoreSession::ReserveHugePages() {
  auto reservation = HugePageReservation::Create(options_.huge_pages_path, kHugePages);
  if (reservation.ok()) {
    reservation_ = *std::move(reservation);
  } else if (options_.warn) {
    options_.warn(
        fmt::format("the buffers of fio cannot lie on huge pages ({}); the ceiling is a plain "
                    "io_uring loop, and the peers are left out",
                    base::ToStd(reservation.status().message())));
  }
}

Load StoreSession::MakeLoad(const Case& which) const {
  return {.which = which,
          .depth = DepthOf(which),
          .milliseconds = options_.milliseconds,
          .file_bytes = options_.file_bytes};
}

absl::StatusOr<Sample> StoreSession::RunCeiling(const Load& load) const {
  if (fio_has_huge_pages()) return RunOnFiles({.load = load});
  return RunLoop(load);
}

absl::StatusOr<Sample> StoreSession::RunLoop(const Load& load) const {
  SLUICE_RETURN_IF_ERROR(CheckInterrupted());
  return RunPlainLoop(*files_, load, options_.interrupted);
}

absl::StatusOr<Sample> StoreSession::RunPeer(const Load& load, FioPeer peer) const {
  if (peer == FioPeer::kLibaio) return RunOnFiles({.io_engine = "libaio", .load = load});
  FioJob job{.io_engine = "psync", .buffered = true, .load = load};
  job.load.depth = 1;
  absl::StatusOr<Sample> sample = RunOnFiles(std::move(job));
  // Cached pages would slow down later O_DIRECT requests.
  for (const io::IoFile& file : files_->files()) posix_fadvise(file.fd, 0, 0, POSIX_FADV_DONTNEED);
  return sample;
}

absl::StatusOr<Sample> StoreSession::RunOnFiles(FioJob job) const {
  job.program = options_.fio;
  for (const io::IoFile& file : files_->files()) job.file_fds.push_back(file.fd);
  return RunFio(job, options_.interrupted);
}

absl::Status StoreSession::CheckInterrupted() const {
  const bool interrupted = options_.interrupted && options_.interrupted();
  return interrupted ? absl::CancelledError("interrupted") : absl::OkStatus();
}

void StoreSession::ShowProgress(const std::string& line) const {
  if (options_.progress) options_.progress(line);
}

}  // namespace sluice::bench
