#include "tools/train/state/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"

namespace sluice::tools {
namespace {

/// "process 4711 on host name"; empty where the file does not say so.
std::string ReadHolder(int fd) {
  std::array<char, 256> text{};
  const ssize_t size = pread(fd, text.data(), text.size(), 0);
  if (size <= 0) return "";
  std::string holder(text.data(), static_cast<std::size_t>(size));
  return holder.substr(0, holder.find('\n'));
}

std::string ThisHolder() {
  std::array<char, 128> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host = {"?"};
  return fmt::format("process {} on {}\n", getpid(), host.data());
}

absl::Status InUse(const std::string& path, const std::string& holder) {
  return absl::FailedPreconditionError(base::ToAbsl(fmt::format(
      "another run saves there: {} has {} locked; wait until it has ended, or name another "
      "directory",
      holder.empty() ? "a process" : holder,
      path)));
}

/// Files that other runs may remove, one after the other, before a lock is taken of one that stays.
/// Some file systems say of each file that it has no name.
constexpr int kRemovedMax = 8;

/// Whether the error is that of a file system that knows no locks (NFS without its lock service,
/// some of FUSE).
bool KnowsNoLocks(int error) {
  return error == ENOLCK || error == EOPNOTSUPP || error == ENOSYS || error == EINVAL;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DirectoryLock>> DirectoryLock::Take(const std::string& directory) {
  return Take(directory, ::flock);
}

absl::StatusOr<std::unique_ptr<DirectoryLock>> DirectoryLock::Take(const std::string& directory,
                                                                   const Flock& flock) {
  const std::string path = fmt::format("{}/{}", directory, kLockName);
  for (int removed = 0;; ++removed) {
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0) return base::StatusFromErrno(errno, "open " + path);
    std::unique_ptr<DirectoryLock> lock(new DirectoryLock(path, fd));
    SLUICE_RETURN_IF_ERROR(lock->Lock(flock));
    if (!lock->IsRemoved() || removed == kRemovedMax) return lock;
  }
}

DirectoryLock::~DirectoryLock() { close(fd_); }

/// The run that held the lock may have removed its file between open and flock. The next run makes
/// another file, and would hold that one.
bool DirectoryLock::IsRemoved() const {
  struct stat info {};
  return fstat(fd_, &info) == 0 && info.st_nlink == 0;
}

absl::Status DirectoryLock::Lock(const Flock& flock) {
  int result = flock(fd_, LOCK_EX | LOCK_NB);
  while (result != 0 && errno == EINTR) result = flock(fd_, LOCK_EX | LOCK_NB);
  if (result == 0) return NameHolder();
  if (errno == EWOULDBLOCK) return InUse(path_, ReadHolder(fd_));
  if (!KnowsNoLocks(errno)) return base::StatusFromErrno(errno, "lock " + path_);
  why_not_ = fmt::format("flock {}: {}", path_, base::DescribeErrno(errno));
  return absl::OkStatus();
}

/// The name helps whoever finds the directory locked. A full disk is no reason not to begin.
absl::Status DirectoryLock::NameHolder() {
  const std::string holder = ThisHolder();
  if (ftruncate(fd_, 0) != 0) return base::StatusFromErrno(errno, "truncate " + path_);
  const ssize_t written = pwrite(fd_, holder.data(), holder.size(), 0);
  if (written >= 0 || errno == ENOSPC || errno == EDQUOT) return absl::OkStatus();
  return base::StatusFromErrno(errno, "write " + path_);
}

}  // namespace sluice::tools
