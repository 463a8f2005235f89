#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace sluice::tools {

/// Where an output that the user named goes.
struct OutputPath {
  enum class Kind {
    kFile,    ///< a regular file, or nothing yet
    kStream,  ///< a character device or a FIFO: written to directly, never replaced
  };
  /// kFile: absolute and without symbolic links, so that equal files have equal paths.
  std::string path;
  Kind kind = Kind::kFile;
};

/// Errors: InvalidArgument (no file name; a directory or anything else that is neither a file nor a
/// stream), as open(2) for the directory (NotFound, PermissionDenied). Each names the path.
absl::StatusOr<OutputPath> ResolveOutput(const std::string& path);

}  // namespace sluice::tools
