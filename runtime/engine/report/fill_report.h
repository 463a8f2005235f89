#pragma once

#include <chrono>
#include <functional>

#include "io/file/file_fill.h"
#include "sluice/events.h"

namespace sluice::engine {

/// Lines of the log about spill files that are written in full: the first at once, others at least
/// ten seconds apart. Threads: externally synchronised.
class FillReport {
 public:
  using Now = std::function<std::chrono::steady_clock::time_point()>;
  /// `log` may be null: then nobody hears of it.
  explicit FillReport(LogSink log, Now now = std::chrono::steady_clock::now);
  void Tell(const io::FillProgress& progress);

 private:
  const LogSink log_;
  const Now now_;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace sluice::engine
