#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "io/copy_on_write.h"
#include "io/direct_io.h"
#include "io/file_descriptor.h"
#include "io/io_engine.h"
#include "io/spill_directory.h"

namespace sluice::io {

struct SpillFileOptions {
  std::uint64_t bytes = 0;  ///< a multiple of kIoAlignment
  bool require_direct = false;
  bool disable_direct = false;
  bool require_nocow = false;
  /// As on a file system without O_TMPFILE: make a random name and remove it at once.
  bool disable_tmpfile = false;
  /// For tests: in place of fallocate(2) with mode 0; returns 0 or an errno.
  std::function<int(int fd, std::uint64_t bytes)> allocate;
  AskAlignment ask_alignment;
  AskCache ask_cache;
  AskNocow ask_nocow;
};

/// Whether `bytes` can be taken and `keep_free_bytes` stay free (of what is not kept for root).
/// Errors: ResourceExhausted.
absl::Status CheckKeepsFree(const SpillDirectory& directory,
                            std::uint64_t bytes,
                            std::uint64_t keep_free_bytes);

/// A file of fixed length without a name. Its space is reserved up front, so that no write fails
/// for lack of it, unless nocow_reason() says otherwise. The kernel takes the space back when the
/// process ends, however it ends.
class SpillFile {
 public:
  /// Errors: ResourceExhausted (no space, quota, RLIMIT_FSIZE: nothing stays reserved),
  /// FailedPrecondition (O_DIRECT or writing in place refused but required; no preallocation), and
  /// of the open.
  static absl::StatusOr<std::unique_ptr<SpillFile>> Create(const SpillDirectory& directory,
                                                           const SpillFileOptions& options);

  const IoFile& file() const { return file_; }
  bool direct() const { return direct_reason_.empty(); }
  /// Why not O_DIRECT; empty when it is.
  const std::string& direct_reason() const { return direct_reason_; }
  /// The reason why pages are copied on write; empty when they are overwritten in place.
  const std::string& nocow_reason() const { return nocow_reason_; }

 private:
  struct Reasons {
    std::string direct;
    std::string nocow;
  };

  SpillFile(FileDescriptor fd, std::uint64_t bytes, Reasons reasons);

  FileDescriptor fd_;
  IoFile file_;
  std::string direct_reason_;
  std::string nocow_reason_;
};

}  // namespace sluice::io
