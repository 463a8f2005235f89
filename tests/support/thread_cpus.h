#pragma once

#include <sched.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace sluice::testing {

/// The processors that each of this process's threads called "sluice-..." may run on, by its name:
/// one set where all of that name agree.
inline std::map<std::string, std::set<std::vector<int>>> CpusOfThreads() {
  std::map<std::string, std::set<std::vector<int>>> threads;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (!name.starts_with("sluice-")) continue;
    cpu_set_t set;
    if (sched_getaffinity(std::stoi(task.path().filename()), sizeof(set), &set) != 0) continue;
    std::vector<int> cpus;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) cpus.push_back(cpu);
    }
    threads[name].insert(cpus);
  }
  return threads;
}

}  // namespace sluice::testing
