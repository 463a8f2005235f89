#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "bench/store/load.h"
#include "bench/store/store_side.h"
#include "io/file/spill_files.h"

namespace sluice::bench {

/// A page store without a runtime, on files of its own: what the disk gives to pages alone.
/// Threads: one.
class PlainStore {
 public:
  struct Options {
    std::string directory;
    std::uint64_t page_bytes = 0;
    std::uint64_t bytes = 0;         ///< bytes of the files, or more where a load needs them
    std::uint32_t milliseconds = 0;  ///< length of each measurement
  };

  /// Makes the files. Errors: those of io::OpenSpillDirectory and io::SpillFiles::Create.
  static absl::StatusOr<std::unique_ptr<PlainStore>> Create(const Options& options);
  /// Begins another load of whole pages: the store writes each page once. Errors: those of
  /// StoreSide::Create.
  absl::Status Begin(Direction direction, Pattern pattern);
  /// Bytes per second of the load. Errors: those of StoreSide::Run. REQUIRES: Begin.
  absl::StatusOr<double> Rate();

 private:
  explicit PlainStore(const Options& options) : options_(options) {}

  const Options options_;
  std::uint64_t file_bytes_ = 0;
  std::shared_ptr<const io::SpillFiles> files_;
  std::unique_ptr<StoreSide> side_;  ///< store of the load that began last
};

}  // namespace sluice::bench
