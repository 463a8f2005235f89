#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/events.h"

namespace sluice::python {

/// A line of a Runtime's log.
struct LogLine {
  LogLevel level = LogLevel::kInfo;
  std::string text;
};

/// Lines and intervals that a Runtime's threads report, kept until Python asks for them: no such
/// thread ever takes the GIL. Threads: any.
class Reports {
 public:
  /// Most lines and intervals that are kept. Further ones are counted and dropped.
  static constexpr std::size_t kLinesMax = 10'000;
  static constexpr std::size_t kSpansMax = 1'000'000;

  void AddLine(LogLevel level, std::string_view text);
  void AddSpan(const TraceSpan& span);

  /// The lines since the last call, and the number of dropped ones.
  std::pair<std::vector<LogLine>, std::uint64_t> TakeLines();

  /// Keeps the intervals that end from now on. Returns false if they are kept already.
  bool StartTrace();
  /// Stops, and returns the intervals and the number of dropped ones.
  std::pair<std::vector<TraceSpan>, std::uint64_t> StopTrace();

 private:
  std::mutex mutex_;
  std::vector<LogLine> lines_;
  std::uint64_t dropped_lines_ = 0;
  bool tracing_ = false;
  std::vector<TraceSpan> spans_;
  std::uint64_t dropped_spans_ = 0;
};

}  // namespace sluice::python
