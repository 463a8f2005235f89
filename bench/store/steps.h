#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "base/cond_var.h"
#include "base/mutex.h"
#include "bench/store/load.h"

namespace sluice::bench {

/// One page to move.
struct Step {
  bool writes = false;
  std::uint32_t page = 0;
};

/// Order of the pages in a stretch of load, which all our loops share. It keeps the pages in flight
/// apart and notes the results. The first error ends the stretch. Threads: any.
class Steps {
 public:
  /// The stretch begins. REQUIRES: load.pages() >= 2 * load.outstanding().
  explicit Steps(const Load& load);
  /// One pass over the file, whatever time it takes.
  static Load OnePass(Load load);

  /// The next step; none once time is up or a step failed. The caller's place then stays free.
  std::optional<Step> Next();
  /// Notes the end of a step of Next.
  void Finished(const Step& step, const absl::Status& status);

  /// Ends the stretch with an error: no more steps begin.
  void Fail(const absl::Status& status);

  /// Waits until each of the places has got nothing from Next.
  void Wait();
  /// The bytes moved, or the first error. REQUIRES: Wait has returned.
  std::uint64_t bytes();
  absl::Status status();

 private:
  using Clock = std::chrono::steady_clock;

  bool IsOver() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::uint32_t TakePage(std::uint32_t& cursor) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Load load_;
  const Clock::time_point deadline_;
  std::vector<std::uint32_t> order_;

  base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<bool> busy_ ABSL_GUARDED_BY(mutex_);
  std::uint32_t read_cursor_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint32_t write_cursor_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t started_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t finished_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint32_t places_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice::bench
