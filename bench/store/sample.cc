#include "bench/store/sample.h"

#include <sys/resource.h>

#include <chrono>

namespace sluice::bench {
namespace {

double Now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

double ProcessCpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
}

}  // namespace

Stretch::Stretch() : start_seconds_(Now()), start_cpu_seconds_(ProcessCpuSeconds()) {}

Sample Stretch::End(std::uint64_t bytes) const {
  return {.bytes = bytes,
          .seconds = Now() - start_seconds_,
          .cpu_seconds = ProcessCpuSeconds() - start_cpu_seconds_};
}

}  // namespace sluice::bench
