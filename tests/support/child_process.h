#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace sluice::testing {

/// Runs `body` in a child process, for changes that cannot be undone (limits, seccomp filters,
/// another user). Returns the text of `body`, or how the child died. REQUIRES: if the caller has
/// other threads, `body` takes no lock that one of them may hold.
std::string RunInChild(const std::function<std::string()>& body);

/// Runs `work`, which never ends, in a child process. Once it has called `begun`, `look` runs here;
/// then SIGKILL ends the child in the middle of its work. Returns the text of `look`, or else why
/// the child was not killed. The child has ended by then. REQUIRES: as RunInChild.
std::string KillAtWork(const std::function<void(const std::function<void()>& begun)>& work,
                       const std::function<std::string()>& look);

/// Makes a system call fail with `error_number` from now on, in every thread of this process.
/// kWhenSecondArgument: it fails only if its second argument is not zero (io_uring_enter: something
/// to submit). kByDeath: it ends the process with SIGSYS instead.
enum class Refuse { kEveryCall, kWhenSecondArgument, kByDeath };
std::string RefuseSystemCall(long number, int error_number, Refuse when);

/// Makes open(2) with O_TMPFILE fail with `error_number` from now on, as on NFS, CIFS and FUSE
/// (EOPNOTSUPP). Returns "" or what failed. REQUIRES: a child of RunInChild.
std::string RefuseNamelessFiles(int error_number);

/// Lets this process, even root, lock no more than `bytes`. The kernel counts per real user, so the
/// process becomes another user if it may. Returns "" or what failed. REQUIRES: a child of
/// RunInChild.
std::string LimitLockedMemory(std::uint64_t bytes);

}  // namespace sluice::testing
