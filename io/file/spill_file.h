#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "io/engine/io_engine.h"
#include "io/file/copy_on_write.h"
#include "io/file/direct_io.h"
#include "io/file/file_descriptor.h"
#include "io/file/file_fill.h"
#include "io/file/spill_directory.h"
#include "sluice/use.h"

namespace sluice::io {

struct SpillFileOptions {
  std::uint64_t bytes = 0;  ///< a multiple of kIoAlignment
  Use direct = Use::kAuto;
  Use nocow = Use::kAuto;
  /// Space that the file system promises; without it the file is filled.
  Use reserved_space = Use::kAuto;
  /// Bytes of files that come after this one. Their space must be free, too, before it is written.
  std::uint64_t bytes_to_come = 0;
  /// Receiver of the progress while the file is written in full; null: nobody.
  OnFill on_fill;
  /// Question after each piece of that; true: Create gives Cancelled. Null: never asked.
  std::function<bool()> stop_fill;
  /// Whether to make a random name and remove it at once, as on a file system without O_TMPFILE.
  bool disable_tmpfile = false;
  /// A function that tests put in place of fallocate(2) with mode 0; returns 0 or an errno.
  std::function<int(int fd, std::uint64_t bytes)> allocate;
  /// A function that tests put in place of st_nlink of fstat(2).
  std::function<std::uint64_t(int fd)> ask_names;
  AskAlignment ask_alignment;
  AskCache ask_cache;
  AskNocow ask_nocow;
};

/// OK if RLIMIT_FSIZE allows a file of `bytes`. Beyond it fallocate would raise SIGXFSZ in the
/// caller's thread. Errors: ResourceExhausted.
absl::Status CheckFileSizeLimit(const SpillDirectory& directory, std::uint64_t bytes);

/// OK if `bytes` can be taken and `keep_free_bytes` stay free, of the space that is not kept for
/// root. Errors: ResourceExhausted.
absl::Status CheckKeepsFree(const SpillDirectory& directory,
                            std::uint64_t bytes,
                            std::uint64_t keep_free_bytes);

/// A file of fixed length without a name. The space is reserved up front, so that no write fails
/// for lack of it, unless nocow_reason() says otherwise. A file system without fallocate(2) has the
/// file written in full once, which takes as long as the disk needs for its bytes. The kernel takes
/// the space back when the process ends, however it ends.
class SpillFile {
 public:
  /// Errors: ResourceExhausted (no space, quota, RLIMIT_FSIZE: nothing stays reserved),
  /// FailedPrecondition (O_DIRECT, writing in place or reserved space refused but required), and of
  /// the open.
  static absl::StatusOr<std::unique_ptr<SpillFile>> Create(const SpillDirectory& directory,
                                                           const SpillFileOptions& options);

  const IoFile& file() const { return file_; }
  bool direct() const { return reasons_.direct.empty(); }
  /// Reason against O_DIRECT; empty if it is used.
  const std::string& direct_reason() const { return reasons_.direct; }
  /// The reason why pages are copied on write; empty when they are overwritten in place.
  const std::string& nocow_reason() const { return reasons_.nocow; }
  /// The reason why the file was written in full; empty when fallocate(2) reserved its space.
  const std::string& reserved_space_reason() const { return reasons_.reserved_space; }

 private:
  struct Reasons {
    std::string direct;
    std::string nocow;
    std::string reserved_space;
  };

  SpillFile(FileDescriptor fd, std::uint64_t bytes, Reasons reasons);

  FileDescriptor fd_;
  IoFile file_;
  Reasons reasons_;
};

}  // namespace sluice::io
