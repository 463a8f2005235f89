#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

namespace sluice::base {

/// The calls of the operating system that make a file. Each one returns what the system call
/// returns: -1, with the reason in errno, where it fails. A test overrides them with faults.
class FileCalls {
 public:
  virtual ~FileCalls() = default;
  virtual int Open(const std::string& path, int flags, mode_t mode);
  virtual ssize_t Write(int fd, const void* bytes, std::size_t size, off_t offset);
  virtual int Sync(int fd);
  /// Waits for the writeback that an earlier call has started, and starts that of all bytes written
  /// since. The call makes nothing durable.
  virtual int StartWriteback(int fd);
  /// Gives a nameless file its first name, through /proc, for which no privilege is needed.
  virtual int Link(int fd, const std::string& path);
  virtual int Rename(const std::string& from, const std::string& to);
  virtual int Unlink(const std::string& path);
  virtual int Close(int fd);
};

}  // namespace sluice::base
