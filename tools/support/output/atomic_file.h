#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/new_file.h"
#include "tools/support/output/output_path.h"

namespace sluice::tools {

/// An output that the user named. A regular file appears under its name only when it is complete,
/// see base::NewFile. Symbolic links stay: the file that they lead to is replaced. Bytes for a
/// character device or a FIFO are written as they come. Threads: externally synchronised.
class AtomicFile {
 public:
  /// Opens the output. Waits for a FIFO's reader. Errors: those of ResolveOutput; those of open(2):
  /// PermissionDenied, ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<AtomicFile>> Create(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends through a buffer of 256 KiB. The first error stays: later calls return it again.
  absl::Status Append(std::string_view bytes);
  /// Writes the buffer, syncs file and directory, and gives the file its name.
  absl::Status Commit();

 private:
  explicit AtomicFile(OutputPath output);
  absl::Status Open();
  absl::Status Flush();
  absl::Status Finish();
  absl::Status WriteToStream();
  absl::Status CloseStream();

  const std::string path_;
  const OutputPath::Kind kind_;
  std::unique_ptr<base::NewFile> file_;  ///< file; null: the output is a stream
  int stream_ = -1;
  std::string buffer_;
  absl::Status status_;
};

}  // namespace sluice::tools
