#include "base/file_calls.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include "fmt/format.h"

namespace sluice::base {

int FileCalls::Open(const std::string& path, int flags, mode_t mode) {
  return open(path.c_str(), flags, mode);
}

ssize_t FileCalls::Write(int fd, const void* bytes, std::size_t size, off_t offset) {
  return pwrite(fd, bytes, size, offset);
}

int FileCalls::Sync(int fd) { return fsync(fd); }

int FileCalls::StartWriteback(int fd) {
  return sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE);
}

int FileCalls::Link(int fd, const std::string& path) {
  const std::string nameless = fmt::format("/proc/self/fd/{}", fd);
  return linkat(AT_FDCWD, nameless.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW);
}

int FileCalls::Rename(const std::string& from, const std::string& to) {
  return std::rename(from.c_str(), to.c_str());
}

int FileCalls::Unlink(const std::string& path) { return unlink(path.c_str()); }

int FileCalls::Close(int fd) { return close(fd); }

}  // namespace sluice::base
