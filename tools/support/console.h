#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "sluice/events.h"

namespace sluice::tools {

/// Where a run's text goes: standard output, or standard error when standard output is JSON. A line
/// of progress is kept at the bottom of a terminal, and never written to anything else. Threads:
/// any.
class Console {
 public:
  enum class Mode { kText, kJson };
  explicit Console(Mode mode);
  /// Wipes the line of progress.
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  /// Text with its newlines.
  void Print(std::string_view text);
  /// The object that is the result; nothing in kText.
  void PrintJson(std::string_view json);
  /// Replaces the line of progress.
  void ShowProgress(const std::string& line);
  /// What the library has to say, to standard error: warnings and errors.
  void Log(LogLevel level, std::string_view line);

  /// DataLoss once something did not reach standard output.
  absl::Status status();

 private:
  void Write(std::FILE* out, std::string_view text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WipeProgress() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Mode mode_;
  const bool terminal_;
  base::Mutex mutex_;
  std::string progress_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice::tools
