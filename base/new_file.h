#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_calls.h"

namespace sluice::base {

struct NewFileOptions {
  mode_t mode = 0666;  ///< permissions, less the umask
  /// Calls in place of the kernel's, for tests. Lifetime: outlives the file.
  FileCalls* calls = nullptr;
};

/// A file that gets its name only once it is whole and on the disk. Every saver writes through it.
///
/// The order is the one that power loss needs: write, sync the file, give it a random name, sync it
/// again, rename it, sync the directory. The second sync is for btrfs, which may log nothing of a
/// file without a name.
/// After a crash at any moment the name has the old file or the new one.
///
/// The file has no name until then (O_TMPFILE), so a process that is killed while it writes leaves
/// nothing. A process that is killed between the naming and the rename leaves the random name. File
/// systems without nameless files (NFS, CIFS, FUSE) get a file with a random name beside it,
/// ".sluice-*.partial". A process that is killed leaves that one. Nobody needs it, but a later save
/// cannot know that: its writer may run on another host.
///
/// Bytes that only memory has stay few. Writeback starts while the file is written, and the writer
/// waits for the disk rather than fill memory. So the last sync is short.
///
/// Threads: externally synchronised.
class NewFile {
 public:
  /// Makes the file beside `path`, which no symbolic link may stand for. Errors: NotFound (the
  /// directory), those of open(2).
  static absl::StatusOr<std::unique_ptr<NewFile>> Create(std::string path,
                                                         const NewFileOptions& options = {});
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  /// Appends behind the furthest byte so far. The first error stays: later calls return it again.
  /// Errors: those of pwrite(2), ResourceExhausted (RLIMIT_FSIZE).
  absl::Status Write(std::span<const std::byte> bytes) { return WriteAt(end_, bytes); }
  /// Writes bytes from `offset` on. A hole that nobody fills reads as zeros. Errors: those of
  /// Write.
  absl::Status WriteAt(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Gives the file its name, once. After an error the name has the old file. Only if the
  /// directory's sync fails does it have the new one, which a power loss may take back.
  absl::Status Commit();

 private:
  NewFile(std::string path, const NewFileOptions& options);
  absl::Status OpenDirectory();
  absl::Status Open();
  absl::Status WriteAll(std::uint64_t offset, std::span<const std::byte> bytes);
  absl::Status BoundDirtyBytes(std::uint64_t more);
  absl::Status Publish();
  absl::Status Close();
  absl::Status SyncDirectory();
  int Sync(int fd);
  /// Tries random names until `take` meets none that exists.
  template <typename Take>
  absl::StatusOr<std::string> TakeRandomName(const Take& take);

  const std::string path_;
  const std::string directory_;
  const mode_t mode_;
  FileCalls kernel_;
  FileCalls& calls_;
  /// The name beside `path_`; empty while the file has none, and once it has its own.
  std::string temporary_;
  int directory_fd_ = -1;
  int fd_ = -1;
  std::uint64_t end_ = 0;    ///< end of the bytes that have been written
  std::uint64_t dirty_ = 0;  ///< bytes written since writeback was started
  absl::Status status_;
};

}  // namespace sluice::base
