#include "io/file/spill_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"

namespace sluice::io {
namespace {

// A slash at the end would make the kernel follow a symbolic link in spite of O_NOFOLLOW.
std::string WithoutTrailingSlashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

bool IsSymbolicLink(const std::string& path) {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode);
}

absl::Status DescribeOpenFailure(const std::string& path, int error_number) {
  if (error_number == ENOENT && path.starts_with("~")) {
    return absl::NotFoundError(base::ToAbsl(fmt::format(
        "spill directory {} does not exist: only a shell expands '~'; write the whole path",
        path)));
  }
  if (error_number == ENOENT) {
    return absl::NotFoundError(
        base::ToAbsl(fmt::format("spill directory {} does not exist; make it: mkdir -p -m 700 {}",
                                 path,
                                 base::ShellWord(path))));
  }
  if (IsSymbolicLink(path)) {
    return absl::PermissionDeniedError(base::ToAbsl(fmt::format(
        "spill directory {} is a symbolic link; name the directory that it points to", path)));
  }
  if (error_number == ENOTDIR) {
    return absl::InvalidArgumentError(
        base::ToAbsl(fmt::format("spill directory {} is not a directory; name one", path)));
  }
  if (error_number == EACCES) {
    return absl::PermissionDeniedError(base::ToAbsl(fmt::format(
        "spill directory {} may not be opened (EACCES); name one of your own that you may read "
        "and write",
        path)));
  }
  return base::StatusFromErrno(error_number, fmt::format("spill directory {}: open", path));
}

absl::Status CheckOwnerAndMode(int fd, const std::string& path) {
  struct stat info {};
  if (fstat(fd, &info) != 0) {
    return base::StatusFromErrno(errno, fmt::format("spill directory {}: fstat", path));
  }
  if (info.st_uid != geteuid()) {
    return absl::PermissionDeniedError(base::ToAbsl(fmt::format(
        "spill directory {} belongs to uid {}, not to you (uid {}); name one of your own",
        path,
        info.st_uid,
        geteuid())));
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    // A directory that is shared on purpose (/tmp) must stay as it is.
    const std::string fix = (info.st_mode & S_ISVTX) != 0
                                ? fmt::format("use one of your own in it: mkdir -m 700 {}",
                                              base::ShellWord(path + "/sluice"))
                                : fmt::format("run: chmod go-w {}", base::ShellWord(path));
    return absl::PermissionDeniedError(
        base::ToAbsl(fmt::format("spill directory {} is writable by {} (mode {:04o}); {}",
                                 path,
                                 (info.st_mode & S_IWOTH) != 0 ? "others" : "its group",
                                 info.st_mode & 07777U,
                                 fix)));
  }
  return absl::OkStatus();
}

using DirectoryId = std::pair<dev_t, ino_t>;

absl::StatusOr<DirectoryId> Identify(const SpillDirectory& directory) {
  struct stat info {};
  if (fstat(directory.fd.get(), &info) != 0) {
    return base::StatusFromErrno(errno, fmt::format("spill directory {}: fstat", directory.path));
  }
  return DirectoryId(info.st_dev, info.st_ino);
}

}  // namespace

absl::StatusOr<std::string> MakeDefaultSpillDirectory(const std::string& parent) {
  std::string path = fmt::format("{}/sluice-{}", parent, geteuid());
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return base::StatusFromErrno(errno, fmt::format("spill directory {}: mkdir", path));
  }
  return path;
}

absl::StatusOr<SpillDirectory> OpenSpillDirectory(const std::string& path) {
  std::string name = WithoutTrailingSlashes(path);
  if (name.empty()) {
    SLUICE_ASSIGN_OR_RETURN(name, MakeDefaultSpillDirectory("/var/tmp"));
  }
  FileDescriptor fd(open(name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid()) return DescribeOpenFailure(name, errno);
  SLUICE_RETURN_IF_ERROR(CheckOwnerAndMode(fd.get(), name));
  return SpillDirectory{.fd = std::move(fd), .path = std::move(name)};
}

absl::StatusOr<OpenedDirectory> OpenUnlessOpened(const OpenedDirectory& opened,
                                                 const std::string& path) {
  if (opened != nullptr) return opened;
  SLUICE_ASSIGN_OR_RETURN(SpillDirectory directory, OpenSpillDirectory(path));
  return std::make_shared<const SpillDirectory>(std::move(directory));
}

absl::StatusOr<std::vector<OpenedDirectory>> OpenSpillDirectories(
    const std::vector<std::string>& paths) {
  std::vector<OpenedDirectory> all;
  std::map<DirectoryId, std::string> seen;
  for (const std::string& path : paths) {
    SLUICE_ASSIGN_OR_RETURN(OpenedDirectory opened, OpenUnlessOpened(nullptr, path));
    SLUICE_ASSIGN_OR_RETURN(const DirectoryId id, Identify(*opened));
    const auto [first, is_new] = seen.try_emplace(id, opened->path);
    if (!is_new) {
      return absl::InvalidArgumentError(base::ToAbsl(
          fmt::format("spill directory {} is named twice, the first time as {}; name one of each "
                      "drive",
                      opened->path,
                      first->second)));
    }
    all.push_back(std::move(opened));
  }
  return all;
}

}  // namespace sluice::io
