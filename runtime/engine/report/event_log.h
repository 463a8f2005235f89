#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "runtime/core/core.h"
#include "runtime/engine/report/logger.h"

namespace sluice::engine {

/// Events that a Runtime's core was told. The log keeps the last kCapacity, to write them when
/// something went wrong. With BackendHooks::record_events it keeps all from the start on, with the
/// answers. Feeding all of them to a fresh core made with `options` and a fresh policy must give
/// the same actions. Threads: the core thread, but for Copy: any thread may call it where all
/// events are kept.
class EventLog {
 public:
  static constexpr std::size_t kCapacity = 4096;

  struct Entry {
    core::Event event;
    std::vector<core::Action> actions;
  };

  EventLog(core::CoreOptions options, bool all) : options_(std::move(options)), all_(all) {
    options_.policy = nullptr;
  }

  /// Options without the policy, which has a state of its own.
  const core::CoreOptions& options() const { return options_; }

  /// Keeps the event; the reference is valid until the next call.
  const core::Event& Add(core::Event event);
  /// Actions that answer the last event.
  void Answer(const std::vector<core::Action>& actions);
  /// Writes the events that were not written before to the log, oldest first, under a line that
  /// says why.
  void Dump(Logger& logger, std::string_view why);
  std::vector<Entry> Copy() const;

 private:
  core::CoreOptions options_;
  const bool all_;
  mutable base::Mutex mutex_;
  std::deque<Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t added_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t dumped_ ABSL_GUARDED_BY(mutex_) = 0;  ///< events before this one were written
};

}  // namespace sluice::engine
