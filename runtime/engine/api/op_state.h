#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "base/owner_process.h"
#include "runtime/core/types.h"
#include "runtime/engine/control/schedule_recorder.h"

namespace sluice::internal {

class RuntimeState;

/// An open op: its numbers, its clock, its place in the recorded schedule. Threads: any.
class OpState {
 public:
  using Clock = std::chrono::steady_clock;

  struct Identity {
    core::OpNumber number = 0;
    core::NameIndex name_index = 0;
    core::LaneIndex lane_index = 0;
    bool nested = false;
    std::string name;
  };
  OpState(std::weak_ptr<RuntimeState> runtime, Identity identity, engine::OpRecord record)
      : runtime_(std::move(runtime)), identity_(std::move(identity)), record_(std::move(record)) {}

  std::shared_ptr<RuntimeState> runtime() const { return runtime_.lock(); }
  const Identity& identity() const { return identity_; }
  engine::OpRecord& record() { return record_; }

  /// A ticket's leases were handed out: the clock runs from the first time on.
  void Start(Clock::time_point now);
  /// A thread begins, and ends, to be blocked for a ticket of the op. The op's clock stands while
  /// at least one thread is blocked.
  void BeginWait(Clock::time_point now);
  void EndWait(Clock::time_point now);
  /// Records the op's seconds. The first call alone counts, and no call counts in a child of the
  /// process.
  void End(Clock::time_point now);

 private:
  void AddStall(Clock::time_point until) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const base::OwnerProcess owner_;
  const std::weak_ptr<RuntimeState> runtime_;
  const Identity identity_;
  engine::OpRecord record_;
  base::Mutex mutex_;
  std::optional<Clock::time_point> started_ ABSL_GUARDED_BY(mutex_);
  /// Threads blocked for a ticket of the op.
  std::uint32_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  /// Time at which the first blocked thread was blocked.
  Clock::time_point waiting_since_ ABSL_GUARDED_BY(mutex_);
  Clock::duration stalled_ ABSL_GUARDED_BY(mutex_){};
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace sluice::internal
