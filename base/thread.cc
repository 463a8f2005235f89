#include "base/thread.h"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"

namespace sluice::base {
namespace {

/// The limit of addresses, where there is one: a stack takes some.
std::string AddressLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "";
  return fmt::format(", and ulimit -v, which allows {} KiB of addresses, stacks included",
                     limit.rlim_cur / 1024);
}

}  // namespace

absl::StatusOr<std::thread> StartThread(absl::AnyInvocable<void()> body) {
  // std::thread has no other way to say it; nothing is thrown on from here.
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(ToAbsl(
        fmt::format("a thread cannot be started: {}; see ulimit -u, pids.max of the control group "
                    "and kernel.threads-max{}",
                    ErrnoName(error.code().value()),
                    AddressLimit())));
  }
}

std::vector<int> AllowedCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) cpus.push_back(cpu);
  }
  return cpus;
}

int AllowedCpuCount() {
  const std::size_t allowed = AllowedCpus().size();
  if (allowed > 0) return static_cast<int>(allowed);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace sluice::base
