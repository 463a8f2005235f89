#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "sluice/events.h"

namespace sluice::tools {

/// The text of a run, written to standard output, or to standard error when standard output is
/// JSON. A line of progress stays at the bottom of a terminal, and is never written to anything
/// else. Threads: any.
class Console {
 public:
  enum class Mode { kText, kJson };
  explicit Console(Mode mode);
  /// Wipes the line of progress.
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  /// Prints text, which has its newlines.
  void Print(std::string_view text);
  /// Prints the object that is the result; does nothing in kText.
  void PrintJson(std::string_view json);
  /// Replaces the line of progress.
  void ShowProgress(const std::string& line);
  /// Prints warnings and errors of the library to standard error.
  void Log(LogLevel level, std::string_view line);

  /// The state of standard output: DataLoss once something did not reach it.
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
