#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/output_path.h"

namespace sluice::tools {

/// A file that appears under its name only when it is complete: written without a name in the same
/// directory, then synced, named and renamed. Without Commit nothing is left behind, however the
/// process ends; where the file system knows no nameless files, unless it is killed. Symbolic
/// links stay: the file that they lead to is replaced. A character device or a FIFO is written to
/// as the bytes come. Threads: externally synchronised.
class AtomicFile {
 public:
  enum class Temporary {
    kNameless,  ///< where the file system can (O_TMPFILE)
    kNamed,
  };
  /// Waits for a FIFO's reader. Errors: those of ResolveOutput; as open(2): PermissionDenied,
  /// ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<AtomicFile>> Create(
      const std::string& path, Temporary temporary = Temporary::kNameless);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends through a buffer of 256 KiB. The first error stays: later calls return it again.
  absl::Status Append(std::string_view bytes);
  /// Writes what is buffered, syncs file and directory, and gives the file its name.
  absl::Status Commit();

 private:
  explicit AtomicFile(OutputPath output);
  absl::Status OpenStream();
  absl::Status OpenTemporary(Temporary temporary);
  absl::Status Flush();
  absl::Status Publish();
  absl::Status Close();

  const std::string path_;
  const OutputPath::Kind kind_;
  /// The name that it has for now; empty while it has none, and once it has its own.
  std::string temporary_;
  int descriptor_ = -1;
  std::string buffer_;
  absl::Status status_;
};

}  // namespace sluice::tools
