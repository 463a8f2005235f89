#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "io/file/file_descriptor.h"

namespace sluice::io {

/// A directory that holds spill files, open.
struct SpillDirectory {
  FileDescriptor fd;
  std::string path;  ///< path for messages
};

/// Opens `path`, once and without following a symbolic link; empty: /var/tmp/sluice-<uid>, made
/// 0700 when missing. Checks that the directory belongs to the effective user, and that nobody else
/// may write to it. Spilled pages are weights, and a writer of a directory can plant names in it.
/// Errors: NotFound, InvalidArgument (not a directory), PermissionDenied; each names the directory
/// and what to do.
absl::StatusOr<SpillDirectory> OpenSpillDirectory(const std::string& path);

/// A directory that all users of its files share, so that it is opened and judged once.
using OpenedDirectory = std::shared_ptr<const SpillDirectory>;

/// `opened`, or, where that is null, `path` opened now. Errors: those of OpenSpillDirectory.
absl::StatusOr<OpenedDirectory> OpenUnlessOpened(const OpenedDirectory& opened,
                                                 const std::string& path);

/// Opens the directory of each drive. Errors: those of OpenSpillDirectory, InvalidArgument (two are
/// the same).
absl::StatusOr<std::vector<OpenedDirectory>> OpenSpillDirectories(
    const std::vector<std::string>& paths);

/// The path PARENT/sluice-<uid>, made 0700 unless something has that name; OpenSpillDirectory then
/// judges what it is.
absl::StatusOr<std::string> MakeDefaultSpillDirectory(const std::string& parent);

}  // namespace sluice::io
