#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "runtime/core/core.h"

namespace sluice::engine {

/// Everything a Runtime's core was told and what it answered, from the start on (kept when
/// RuntimeOptions::record_events is set). Feeding the events to a fresh core made with `options`
/// and a fresh policy must give the same actions. Threads: any.
class EventLog {
 public:
  struct Entry {
    core::Event event;
    std::vector<core::Action> actions;
  };

  explicit EventLog(core::CoreOptions options) : options_(std::move(options)) {
    options_.policy = nullptr;
  }

  /// Without the policy, which has a state of its own.
  const core::CoreOptions& options() const { return options_; }

  void Add(const core::Event& event, const std::vector<core::Action>& actions) {
    base::MutexLock lock(mutex_);
    entries_.push_back({event, actions});
  }
  std::vector<Entry> Copy() const {
    base::MutexLock lock(mutex_);
    return entries_;
  }

 private:
  core::CoreOptions options_;
  mutable base::Mutex mutex_;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice::engine
