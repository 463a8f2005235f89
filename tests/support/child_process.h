#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace sluice::testing {

/// Runs `body` in a child process, for what cannot be undone (limits, seccomp filters, another
/// user). Returns what it returned, or how the child died. REQUIRES: where the caller has other
/// threads, `body` takes no lock that one of them may hold.
std::string RunInChild(const std::function<std::string()>& body);

/// From now on, for every thread of this process, the system call fails with `error_number`:
/// always, or only when its second argument is not zero (io_uring_enter: something to submit).
enum class Refuse { kEveryCall, kWhenSecondArgument };
std::string RefuseSystemCall(long number, int error_number, Refuse when);

/// Lets this process lock `bytes`, root as well, and counts what it locks apart from what others of
/// its user do (the kernel counts per real user), where it may take another. "" or what failed.
/// REQUIRES: a child of RunInChild.
std::string LimitLockedMemory(std::uint64_t bytes);

}  // namespace sluice::testing
