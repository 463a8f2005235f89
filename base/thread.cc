#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"

namespace sluice::base {
namespace {

/// A limit that a thread's stack counts against, where there is one.
std::string StackLimit(__rlimit_resource resource, std::string_view name, std::string_view what) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "";
  return fmt::format(
      ", and {}, which allows {} KiB of {}, stacks included", name, limit.rlim_cur / 1024, what);
}

}  // namespace

absl::StatusOr<std::thread> StartThread(absl::AnyInvocable<void()> body) {
  // std::thread has no other way to say it; nothing is thrown on from here.
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(ToAbsl(
        fmt::format("a thread cannot be started: {}; see ulimit -u, pids.max of the control group "
                    "and kernel.threads-max{}{}",
                    ErrnoName(error.code().value()),
                    StackLimit(RLIMIT_AS, "ulimit -v", "addresses"),
                    StackLimit(RLIMIT_DATA, "ulimit -d", "data"))));
  }
}

std::uint64_t StackBytes() {
  constexpr std::size_t kUsual = std::size_t{8} << 20;
  pthread_attr_t attributes;
  if (pthread_getattr_default_np(&attributes) != 0) return kUsual;
  std::size_t bytes = 0;
  if (pthread_attr_getstacksize(&attributes, &bytes) != 0) bytes = kUsual;
  pthread_attr_destroy(&attributes);
  return bytes;
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
