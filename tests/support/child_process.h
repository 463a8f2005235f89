#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace sluice::testing {

/// Runs `body` in a child process, for what cannot be undone (limits, seccomp filters, another
/// user). Returns what it returned, or how the child died. REQUIRES: where the caller has other
/// threads, `body` takes no lock that one of them may hold.
std::string RunInChild(const std::function<std::string()>& body);

/// Runs `work`, which never ends, in a child process. Once it has called `begun`, `look` runs here;
/// then SIGKILL ends the child in the middle of its work. Returns what `look` returned, or else why
/// the child was not killed; nothing of it runs any more. REQUIRES: as RunInChild.
std::string KillAtWork(const std::function<void(const std::function<void()>& begun)>& work,
                       const std::function<std::string()>& look);

/// From now on, for every thread of this process, the system call fails with `error_number`:
/// always, or only when its second argument is not zero (io_uring_enter: something to submit). With
/// kByDeath it ends the process with SIGSYS instead.
enum class Refuse { kEveryCall, kWhenSecondArgument, kByDeath };
std::string RefuseSystemCall(long number, int error_number, Refuse when);

/// From now on open(2) with O_TMPFILE fails with `error_number`, as on NFS, CIFS and FUSE
/// (EOPNOTSUPP). "" or what failed. REQUIRES: a child of RunInChild.
std::string RefuseNamelessFiles(int error_number);

/// Lets this process lock `bytes`, root as well, and counts what it locks apart from what others of
/// its user do (the kernel counts per real user), where it may take another. "" or what failed.
/// REQUIRES: a child of RunInChild.
std::string LimitLockedMemory(std::uint64_t bytes);

}  // namespace sluice::testing
