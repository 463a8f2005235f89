#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "io/file_descriptor.h"
#include "io/io_engine.h"
#include "io/spill_directory.h"

namespace sluice::io {

struct SpillFileOptions {
  std::uint64_t bytes = 0;  ///< a multiple of kIoAlignment
  /// Free space of the file system that must stay, see PageStoreOptions.
  std::uint64_t keep_free_bytes = 0;
  bool require_direct = false;
  bool disable_direct = false;
  /// As on a file system without O_TMPFILE: make a random name and remove it at once.
  bool disable_tmpfile = false;
};

/// A file of fixed length without a name: space is reserved up front, so that no write fails for
/// lack of it, and the kernel takes it back when the process ends, however it ends.
class SpillFile {
 public:
  /// Errors: ResourceExhausted (no space beside what must stay free, quota, RLIMIT_FSIZE: nothing
  /// stays reserved),
  /// FailedPrecondition (O_DIRECT refused but required; no preallocation), and of the open.
  static absl::StatusOr<std::unique_ptr<SpillFile>> Create(const SpillDirectory& directory,
                                                           const SpillFileOptions& options);

  const IoFile& file() const { return file_; }
  bool direct() const { return direct_reason_.empty(); }
  /// Why not O_DIRECT; empty when it is.
  const std::string& direct_reason() const { return direct_reason_; }

 private:
  SpillFile(FileDescriptor fd, std::uint64_t bytes, std::string direct_reason);

  FileDescriptor fd_;
  IoFile file_;
  std::string direct_reason_;
};

}  // namespace sluice::io
