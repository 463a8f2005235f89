#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "bench/store/load.h"
#include "bench/store/sample.h"
#include "bench/store/store_bench.h"
#include "bench/store/system/fio.h"
#include "bench/store/system/huge_page_reservation.h"
#include "io/file/spill_files.h"

namespace sluice::bench {

/// Resources of one run of the benchmark: the files of both sides, written once in full, and fio's
/// huge pages, if the system has any. Threads: externally synchronised.
class StoreSession {
 public:
  /// Checks first all that the user can correct. Errors: those of RunStoreBench.
  static absl::StatusOr<std::unique_ptr<StoreSession>> Create(const StoreBenchOptions& options);

  const StoreBenchOptions& options() const { return options_; }
  /// Files of both sides, which use them in turn.
  const std::shared_ptr<const io::SpillFiles>& files() const { return files_; }
  /// Name of the ceiling: "fio", or "plain-loop" if fio cannot have huge pages.
  std::string ceiling_name() const { return fio_has_huge_pages() ? "fio" : "plain-loop"; }
  bool fio_has_huge_pages() const { return reservation_ != nullptr; }
  Load MakeLoad(const Case& which) const;

  /// One run of the ceiling.
  absl::StatusOr<Sample> RunCeiling(const Load& load) const;
  absl::StatusOr<Sample> RunLoop(const Load& load) const;
  /// REQUIRES: fio_has_huge_pages().
  absl::StatusOr<Sample> RunPeer(const Load& load, FioPeer peer) const;

  /// Errors: Cancelled (the benchmark is interrupted).
  absl::Status CheckInterrupted() const;
  void ShowProgress(const std::string& line) const;

 private:
  explicit StoreSession(const StoreBenchOptions& options) : options_(options) {}
  absl::Status Start();
  void ReserveHugePages();
  absl::StatusOr<Sample> RunOnFiles(FioJob job) const;

  const StoreBenchOptions options_;
  std::shared_ptr<const io::SpillFiles> files_;
  std::unique_ptr<HugePageReservation> reservation_;
};

}  // namespace sluice::bench
