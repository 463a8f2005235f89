#pragma once

#include <string_view>
#include <utility>

#include "base/mutex.h"
#include "sluice/events.h"

namespace sluice::engine {

/// Hands lines to the user's sink, one call at a time. Threads: any.
class Logger {
 public:
  explicit Logger(LogSink sink) : sink_(std::move(sink)) {}

  void Write(LogLevel level, std::string_view line) {
    if (!sink_) return;
    base::MutexLock lock(mutex_);
    sink_(level, line);
  }
  void Info(std::string_view line) { Write(LogLevel::kInfo, line); }
  void Warning(std::string_view line) { Write(LogLevel::kWarning, line); }
  void Error(std::string_view line) { Write(LogLevel::kError, line); }

 private:
  const LogSink sink_;
  base::Mutex mutex_;
};

}  // namespace sluice::engine
