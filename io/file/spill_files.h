#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "io/engine/io_engine.h"
#include "io/file/spill_directory.h"
#include "io/file/spill_file.h"

namespace sluice::io {

struct SpillFilesOptions {
  std::uint64_t bytes = 0;       ///< bytes of all files together, a multiple of `unit_bytes`
  std::uint64_t unit_bytes = 0;  ///< bytes that no file splits, a multiple of kIoAlignment
  /// 0: one for each GiB, at least 1 and at most 4, so that not every write meets at one inode.
  std::uint32_t files = 0;
  /// Free space of the file system that must stay, see PageStoreOptions.
  std::uint64_t keep_free_bytes = 0;
  SpillFileOptions each;  ///< options of each file; `bytes` and `bytes_to_come` are not used
};

/// Bytes of the largest of the files.
std::uint64_t LargestFileBytes(const SpillFilesOptions& options);

/// A few files as one range of bytes: consecutive bytes share a file, so that neighbours stay
/// neighbours. Threads: const methods from any.
class SpillFiles {
 public:
  struct FileOffset {
    const IoFile* file;
    std::uint64_t offset;
  };

  /// Blocks for up to 0.3 s where there is no space, see WaitForSpace. Errors: those of
  /// SpillFile::Create; files made before the error are gone.
  static absl::StatusOr<SpillFiles> Create(const SpillDirectory& directory,
                                           const SpillFilesOptions& options);
  /// A range without a file, for engines that need none.
  static SpillFiles WithoutFile(std::uint64_t bytes);

  /// Lifetime: that of this object, moved or not. REQUIRES: offset < bytes.
  FileOffset At(std::uint64_t offset) const;
  const std::vector<IoFile>& files() const { return io_files_; }
  /// Reason why a file is not O_DIRECT; empty if all are.
  const std::string& direct_reason() const { return direct_reason_; }
  /// The reason why pages of a file are copied on write; empty when all are overwritten in place.
  const std::string& nocow_reason() const { return nocow_reason_; }
  /// The reason why a file was written in full; empty when the space of all was reserved.
  const std::string& reserved_space_reason() const { return reserved_space_reason_; }

 private:
  SpillFiles() = default;
  static absl::StatusOr<SpillFiles> CreateNow(const SpillDirectory& directory,
                                              const SpillFilesOptions& options);

  std::vector<std::unique_ptr<SpillFile>> spill_files_;
  std::vector<IoFile> io_files_;
  std::uint64_t file_bytes_ = 0;  ///< bytes of each file but the last, which may be shorter
  std::string direct_reason_;
  std::string nocow_reason_;
  std::string reserved_space_reason_;
};

}  // namespace sluice::io
