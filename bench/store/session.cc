#include "bench/store/session.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "bench/store/free_space.h"
#include "bench/store/judged_case.h"
#include "bench/store/peers.h"
#include "bench/store/plain_loop.h"
#include "fmt/format.h"
#include "io/spill_directory.h"
#include "numa/huge_pages.h"
#include "sluice/units.h"

namespace sluice::bench {
namespace {

using numa::kHugePageBytes;

constexpr std::uint32_t kDepthLow = 8;
constexpr std::uint32_t kDepthHigh = 32;
/// fio adds a page to its buffers.
constexpr std::uint64_t kHugePagesMore = 4;
/// That the store has at most without io_uring, and what fio maps for one of its own, pages of 2
/// MiB (seen with strace of fio 3.33).
constexpr std::uint32_t kThreads = 16;
constexpr std::uint64_t kHugePagesOfAThread = 3;

absl::Status CheckOptions(const StoreBenchOptions& options) {
  if (options.directory.empty()) {
    return absl::InvalidArgumentError(
        "no directory: name one on the disk to measure, for example --dir /var/tmp/bench");
  }
  if (options.rounds < 1 || options.milliseconds < 1) {
    return absl::InvalidArgumentError("rounds and milliseconds are at least 1");
  }
  if (options.file_bytes < 2 * kSizeUnit || options.file_bytes % kSizeUnit != 0) {
    return absl::InvalidArgumentError(
        base::ToAbsl(fmt::format("--size: give a multiple of 8MiB, 16MiB at least, instead of {} "
                                 "bytes; 2GiB is usual",
                                 options.file_bytes)));
  }
  return absl::OkStatus();
}

/// As many in the kernel as being hashed, and as many again that are not in flight.
constexpr std::uint32_t kPagesPerDepth = 4;

absl::Status CheckPages(const StoreBenchOptions& options,
                        const std::string& name,
                        std::uint64_t page_bytes) {
  if (HasPages(options, page_bytes, kDepthLow)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      base::ToAbsl(fmt::format("--size: {} are too little for {}: it takes at least {}",
                               ToString(Bytes(options.file_bytes)),
                               name,
                               ToString(Bytes(kPagesPerDepth * kDepthLow * page_bytes)))));
}

/// A row that is asked for and needs a larger file.
absl::Status CheckSize(const StoreBenchOptions& options) {
  for (const Case& which : SelectedCases(options.pattern)) {
    SLUICE_RETURN_IF_ERROR(CheckPages(options, CaseName(which), which.page_bytes));
  }
  for (const std::string& name : PeerRowNames()) {
    if (!MatchesPattern(options.pattern, name)) continue;
    SLUICE_RETURN_IF_ERROR(CheckPages(options, name, kPeerPageBytes));
  }
  return absl::OkStatus();
}

/// What the case with the largest buffers needs.
std::uint64_t HugePagesWanted(const StoreBenchOptions& options) {
  std::uint64_t page_bytes = kHugePageBytes;
  for (const Case& which : SelectedCases(options.pattern)) {
    page_bytes = std::max(page_bytes, which.page_bytes);
  }
  return std::max(kDepthHigh * page_bytes / kHugePageBytes, kThreads * kHugePagesOfAThread) +
         kHugePagesMore;
}

}  // namespace

bool HasPages(const StoreBenchOptions& options, std::uint64_t page_bytes, std::uint32_t depth) {
  return options.file_bytes / page_bytes >= kPagesPerDepth * depth;
}

absl::StatusOr<std::unique_ptr<Session>> Session::Create(const StoreBenchOptions& options) {
  SLUICE_RETURN_IF_ERROR(CheckOptions(options));
  auto session = std::unique_ptr<Session>(new Session(options));
  SLUICE_RETURN_IF_ERROR(session->Start());
  return session;
}

absl::Status Session::Start() {
  SLUICE_ASSIGN_OR_RETURN(const io::SpillDirectory directory,
                          io::OpenSpillDirectory(options_.directory));
  SLUICE_RETURN_IF_ERROR(CheckSize(options_));
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

void Session::ReserveHugePages() {
  auto reservation =
      HugePageReservation::Create(options_.huge_pages_path, HugePagesWanted(options_));
  if (reservation.ok()) {
    reservation_ = *std::move(reservation);
  } else if (options_.warn) {
    options_.warn(fmt::format(
        "the buffers of fio cannot lie on huge pages ({}); the ceiling is a plain io_uring loop",
        base::ToStd(reservation.status().message())));
  }
}

Load Session::MakeLoad(const Case& which, std::uint32_t depth) const {
  return {.which = which,
          .depth = depth,
          .milliseconds = options_.milliseconds,
          .file_bytes = options_.file_bytes};
}

absl::StatusOr<Sample> Session::RunCeiling(const Load& load) const {
  if (fio_has_huge_pages()) return RunFioAs(load, "io_uring", FioMemory::kHuge);
  SLUICE_RETURN_IF_ERROR(CheckInterrupted());
  return RunPlainLoop(*files_, load, options_.interrupted);
}

absl::StatusOr<Sample> Session::RunFioAs(const Load& load,
                                         const char* io_engine,
                                         FioMemory memory) const {
  return RunOnFiles({.io_engine = io_engine, .memory = memory, .load = load});
}

absl::StatusOr<Sample> Session::RunFioThreads(const Load& load) const {
  const std::uint32_t threads = std::min(load.depth, kThreads);
  return RunOnFiles({.io_engine = "psync", .threads = threads, .load = load});
}

absl::StatusOr<Sample> Session::RunOnFiles(FioJob job) const {
  job.program = options_.fio;
  for (const io::IoFile& file : files_->files()) job.file_fds.push_back(file.fd);
  return RunFio(job, options_.interrupted);
}

absl::StatusOr<std::uint32_t> Session::ChooseDepth(const Case& which) const {
  if (!HasPages(options_, which.page_bytes, kDepthHigh)) return kDepthLow;
  constexpr int kTries = 2;
  for (int i = 0; i < kTries; ++i) {
    SLUICE_ASSIGN_OR_RETURN(const bool deeper, IsFasterDeeper(which));
    if (!deeper) return kDepthLow;
  }
  return kDepthHigh;
}

absl::StatusOr<bool> Session::IsFasterDeeper(const Case& which) const {
  SLUICE_ASSIGN_OR_RETURN(const Sample low, RunCeiling(MakeLoad(which, kDepthLow)));
  SLUICE_ASSIGN_OR_RETURN(const Sample high, RunCeiling(MakeLoad(which, kDepthHigh)));
  return IsClearlyFaster(high.GiBPerSecond(), low.GiBPerSecond());
}

absl::Status Session::CheckInterrupted() const {
  const bool interrupted = options_.interrupted && options_.interrupted();
  return interrupted ? absl::CancelledError("interrupted") : absl::OkStatus();
}

void Session::ShowProgress(const std::string& line) const {
  if (options_.progress) options_.progress(line);
}

double Session::minutes() const {
  const auto elapsed = std::chrono::steady_clock::now() - start_;
  return std::chrono::duration<double, std::ratio<60>>(elapsed).count();
}

}  // namespace sluice::bench
