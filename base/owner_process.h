#pragma once

#include <unistd.h>

namespace sluice::base {

/// The process that made an object. A child of fork lacks the object's threads, rings and memory. A
/// child that clone(2) puts into a PID namespace of its own may have its parent's number there, and
/// is not told apart. Threads: any. Source: fork(2), getpid(2).
class OwnerProcess {
 public:
  bool IsThis() const { return getpid() == pid_; }

 private:
  pid_t pid_ = getpid();
};

}  // namespace sluice::base
