#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <set>
#include <string>
#include <thread>

namespace sluice::testing {

/// Ids of the threads of this process.
inline std::set<std::string> ThreadIds() {
  std::set<std::string> ids;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    ids.insert(task.path().filename());
  }
  return ids;
}

/// Threads that run now and did not at `before`. The kernel lists a joined thread until its exit is
/// complete, so the call waits for threads that end: at most ten seconds.
inline std::size_t ThreadsLeft(const std::set<std::string>& before) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  for (;;) {
    std::size_t left = 0;
    for (const std::string& id : ThreadIds()) left += before.contains(id) ? 0 : 1;
    if (left == 0 || std::chrono::steady_clock::now() > end) return left;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace sluice::testing
