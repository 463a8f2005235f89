#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "bench/store/fio.h"
#include "bench/store/huge_page_reservation.h"
#include "bench/store/load.h"
#include "bench/store/sample.h"
#include "bench/store/store_bench.h"
#include "io/spill_files.h"

namespace sluice::bench {

/// Whether the files have enough pages of this size for both sides at this depth in the kernel.
bool HasPages(const StoreBenchOptions& options, std::uint64_t page_bytes, std::uint32_t depth);

/// What one run of the benchmark holds: the files of both sides, written once in full, and the huge
/// pages of fio, where they can be had. Threads: externally synchronised.
class Session {
 public:
  /// Checks everything that the user can put right first. Errors: those of RunStoreBench.
  static absl::StatusOr<std::unique_ptr<Session>> Create(const StoreBenchOptions& options);

  const StoreBenchOptions& options() const { return options_; }
  /// Those that both sides work on, in turn.
  const std::shared_ptr<const io::SpillFiles>& files() const { return files_; }
  /// "fio", or "plain-loop" where fio cannot have huge pages.
  std::string ceiling_name() const { return fio_has_huge_pages() ? "fio" : "plain-loop"; }
  bool fio_has_huge_pages() const { return reservation_ != nullptr; }
  Load MakeLoad(const Case& which, std::uint32_t depth) const;

  /// One run of the ceiling.
  absl::StatusOr<Sample> RunCeiling(const Load& load) const;
  absl::StatusOr<Sample> RunFioAs(const Load& load, const char* io_engine, FioMemory memory) const;
  /// fio with as many threads as the store has without io_uring, pread and pwrite, on huge pages.
  absl::StatusOr<Sample> RunFioThreads(const Load& load) const;
  /// 32 where the ceiling is clearly higher with it, in a run of each and again in another, else 8:
  /// two runs alone differ by as much now and then. 32 is left out where the file has fewer than
  /// four times as many pages.
  absl::StatusOr<std::uint32_t> ChooseDepth(const Case& which) const;

  /// Cancelled when interrupted.
  absl::Status CheckInterrupted() const;
  void ShowProgress(const std::string& line) const;
  double minutes() const;  ///< since Create

 private:
  explicit Session(const StoreBenchOptions& options) : options_(options) {}
  absl::Status Start();
  void ReserveHugePages();
  absl::StatusOr<bool> IsFasterDeeper(const Case& which) const;
  absl::StatusOr<Sample> RunOnFiles(FioJob job) const;

  const StoreBenchOptions options_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::shared_ptr<const io::SpillFiles> files_;
  std::unique_ptr<HugePageReservation> reservation_;
};

}  // namespace sluice::bench
