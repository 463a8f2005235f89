#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "io/direct_io.h"
#include "io/file_descriptor.h"
#include "io/io_engine.h"
#include "io/spill_directory.h"

namespace sluice::io {

struct SpillFileOptions {
  std::uint64_t bytes = 0;  ///< a multiple of kIoAlignment
  bool require_direct = false;
  bool disable_direct = false;
  /// As on a file system without O_TMPFILE: make a random name and remove it at once.
  bool disable_tmpfile = false;
  /// For tests: in place of fallocate(2) with mode 0; returns 0 or an errno.
  std::function<int(int fd, std::uint64_t bytes)> allocate;
  AskAlignment ask_alignment;
  AskCache ask_cache;
};

/// Whether `bytes` can be taken and `keep_free_bytes` stay free (of what is not kept for root).
/// Errors: ResourceExhausted.
absl::Status CheckKeepsFree(const SpillDirectory& directory,
                            std::uint64_t bytes,
                            std::uint64_t keep_free_bytes);

/// A file of fixed length without a name: space is reserved up front, so that no write fails for
/// lack of it, and the kernel takes it back when the process ends, however it ends.
class SpillFile {
 public:
  /// Errors: ResourceExhausted (no space, quota, RLIMIT_FSIZE: nothing stays reserved),
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
