#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace sluice::tools {

/// Target of an output that the user named.
struct OutputPath {
  enum class Kind {
    kFile,    ///< a regular file, or nothing yet
    kStream,  ///< a character device or a FIFO: written to directly, never replaced
  };
  /// Path of the output. For kFile it is absolute and without symbolic links, so that equal files
  /// have equal paths.
  std::string path;
  Kind kind = Kind::kFile;
};

/// Resolves a path. Errors: InvalidArgument (no file name; a directory or anything else that is
/// neither a file nor a stream), those of open(2) for the directory (NotFound, PermissionDenied).
/// Each message names the path.
absl::StatusOr<OutputPath> ResolveOutput(const std::string& path);

}  // namespace sluice::tools
