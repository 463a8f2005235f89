#pragma once

#include <cstdint>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"

namespace sluice::base {

/// Starts a thread that runs `body`. Every thread starts here. The caller joins the thread. Errors:
/// ResourceExhausted when the system refuses another thread. The message names the limits to raise:
/// ulimit -u, pids.max of the control group, threads-max, and ulimit -v and -d where they are set.
/// `body` is destroyed then.
absl::StatusOr<std::thread> StartThread(absl::AnyInvocable<void()> body);

/// Bytes of addresses that the stack of a new thread takes: RLIMIT_STACK as the process began with
/// it. The thread uses few of them.
std::uint64_t StackBytes();

/// The processors that the calling thread may run on, in rising order. Empty where the kernel does
/// not tell, which is so with more than 1024 of them.
std::vector<int> AllowedCpus();

/// Number of these processors; where the kernel does not tell, that of the machine. At least 1.
int AllowedCpuCount();

}  // namespace sluice::base
