#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>

#include "absl/status/statusor.h"
#include "base/cond_var.h"
#include "base/mutex.h"

namespace sluice::tools {

/// The memory that this process holds: RssAnon of /proc/self/status, plus the allocated bytes
/// (st_blocks x 512) of every memfd named "sluice-*" among its open files, each inode once. Pages
/// of a memfd count once, whether they are mapped never, once or often.
std::uint64_t ResidentBytes();

/// Samples ResidentBytes from a thread of its own, until destruction.
/// Threads: Sample and peak_bytes from any thread.
class MemorySampler {
 public:
  /// Errors: those of base::StartThread.
  static absl::StatusOr<std::unique_ptr<MemorySampler>> Create(
      std::chrono::milliseconds interval = std::chrono::milliseconds(20));
  ~MemorySampler();
  MemorySampler(const MemorySampler&) = delete;
  MemorySampler& operator=(const MemorySampler&) = delete;

  /// Takes one sample now. Returns the largest one so far.
  std::uint64_t Sample();
  std::uint64_t peak_bytes() const { return peak_bytes_.load(); }

 private:
  explicit MemorySampler(std::chrono::milliseconds interval) : interval_(interval) {}
  void Run();

  const std::chrono::milliseconds interval_;
  std::atomic<std::uint64_t> peak_bytes_ = 0;
  base::Mutex mutex_;
  base::CondVar stop_changed_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace sluice::tools
