#include "tests/faults/virtual/watchdog.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

namespace sluice::faults {
namespace {

/// The first line of a file of /proc, as far as it may be read.
std::string FirstLine(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// Name, place in the kernel and system call (number and arguments) of each thread: proc(5).
void PrintThreads() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::fprintf(stderr,
                 "thread %s %s: wchan %s, syscall %s\n",
                 task.path().filename().c_str(),
                 FirstLine(task.path() / "comm").c_str(),
                 FirstLine(task.path() / "wchan").c_str(),
                 FirstLine(task.path() / "syscall").c_str());
  }
}

}  // namespace

Watchdog::Watchdog(std::string what, std::chrono::seconds limit)
    : what_(std::move(what)),
      thread_([this, deadline = base::CondVar::Clock::now() + limit] { Watch(deadline); }) {}

Watchdog::~Watchdog() {
  {
    base::MutexLock lock(mutex_);
    over_ = true;
    changed_.NotifyOne();
  }
  thread_.join();
}

void Watchdog::Watch(base::CondVar::Clock::time_point deadline) {
  base::MutexLock lock(mutex_);
  while (!over_) {
    if (changed_.WaitUntil(mutex_, deadline)) continue;
    if (over_) return;
    std::fflush(stdout);
    std::fprintf(stderr, "%s does not end\n", what_.c_str());
    PrintThreads();
    std::abort();
  }
}

}  // namespace sluice::faults
