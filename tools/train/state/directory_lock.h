#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace sluice::tools {

inline constexpr char kLockName[] = "lock";

/// The right to write to a directory of saves: flock(2) on its file "lock", which the kernel gives
/// back however the process ends. The file has the process and host of the last holder.
/// Threads: externally synchronised.
class DirectoryLock {
 public:
  /// The call flock(2), or a test's own.
  using Flock = std::function<int(int fd, int operation)>;

  /// Takes the lock. Errors: FailedPrecondition (another process has it: names it), those of
  /// open(2). The lock is not held on a file system without locks.
  static absl::StatusOr<std::unique_ptr<DirectoryLock>> Take(const std::string& directory,
                                                             const Flock& flock);
  static absl::StatusOr<std::unique_ptr<DirectoryLock>> Take(const std::string& directory);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

  /// Whether the lock is held. It is not where the file system knows no locks; why_not then tells
  /// the system's answer.
  bool held() const { return why_not_.empty(); }
  const std::string& why_not() const { return why_not_; }

 private:
  DirectoryLock(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  absl::Status Lock(const Flock& flock);
  absl::Status NameHolder();
  bool IsRemoved() const;

  const std::string path_;
  const int fd_;
  std::string why_not_;
};

}  // namespace sluice::tools
