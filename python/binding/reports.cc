#include "python/binding/reports.h"

namespace sluice::python {

void Reports::AddLine(LogLevel level, std::string_view text) {
  const std::lock_guard lock(mutex_);
  if (lines_.size() == kLinesMax) {
    ++dropped_lines_;
    return;
  }
  lines_.push_back({level, std::string(text)});
}

void Reports::AddSpan(const TraceSpan& span) {
  const std::lock_guard lock(mutex_);
  if (!tracing_) return;
  if (spans_.size() == kSpansMax) {
    ++dropped_spans_;
    return;
  }
  spans_.push_back(span);
}

std::pair<std::vector<LogLine>, std::uint64_t> Reports::TakeLines() {
  const std::lock_guard lock(mutex_);
  return {std::exchange(lines_, {}), std::exchange(dropped_lines_, 0)};
}

bool Reports::StartTrace() {
  const std::lock_guard lock(mutex_);
  return !std::exchange(tracing_, true);
}

std::pair<std::vector<TraceSpan>, std::uint64_t> Reports::StopTrace() {
  const std::lock_guard lock(mutex_);
  tracing_ = false;
  return {std::exchange(spans_, {}), std::exchange(dropped_spans_, 0)};
}

}  // namespace sluice::python
