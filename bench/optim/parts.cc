#include "bench/optim/parts.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

namespace sluice::bench {

std::size_t AllowedProcessors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return static_cast<std::size_t>(std::max(CPU_COUNT(&set), 1));
}

double MeasureParts(std::size_t parameters, std::size_t threads, const PartFn& work) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> others;
  const auto border = [=](std::size_t t) {
    return parameters / kPartUnit * t / threads * kPartUnit;
  };
  for (std::size_t t = 1; t < threads; ++t) {
    others.emplace_back([&work, border, t] { work(border(t), border(t + 1)); });
  }
  work(border(0), border(1));
  for (std::thread& other : others) other.join();
  const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - start;
  return elapsed.count() / static_cast<double>(parameters);
}

}  // namespace sluice::bench
