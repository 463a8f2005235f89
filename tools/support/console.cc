#include "tools/support/console.h"

#include <unistd.h>

#include <cerrno>

#include "base/status.h"
#include "fmt/format.h"
#include "tools/support/exit_code.h"

namespace sluice::tools {

Console::Console(Mode mode) : mode_(mode), terminal_(isatty(STDERR_FILENO) == 1) {}

Console::~Console() {
  base::MutexLock lock(mutex_);
  WipeProgress();
}

void Console::Print(std::string_view text) {
  base::MutexLock lock(mutex_);
  WipeProgress();
  Write(mode_ == Mode::kJson ? stderr : stdout, text);
}

void Console::PrintJson(std::string_view json) {
  if (mode_ != Mode::kJson) return;
  base::MutexLock lock(mutex_);
  WipeProgress();
  Write(stdout, json);
}

absl::Status Console::status() {
  base::MutexLock lock(mutex_);
  return status_;
}

void Console::ShowProgress(const std::string& line) {
  if (!terminal_) return;
  base::MutexLock lock(mutex_);
  WipeProgress();
  progress_ = line;
  Write(stderr, progress_);
}

void Console::Log(LogLevel level, std::string_view line) {
  if (level == LogLevel::kInfo) return;
  base::MutexLock lock(mutex_);
  WipeProgress();
  PrintError(fmt::format("{}{}", level == LogLevel::kWarning ? "warning: " : "", line));
}

void Console::Write(std::FILE* out, std::string_view text) {
  const bool whole =
      std::fwrite(text.data(), 1, text.size(), out) == text.size() && std::fflush(out) == 0;
  if (whole || out != stdout || !status_.ok()) return;
  // The code is not that of the errno: a full disk is no fault of the flags here.
  status_ = absl::DataLossError(
      fmt::format("results are lost: write to standard output: {}", base::ErrnoName(errno)));
}

void Console::WipeProgress() {
  if (progress_.empty()) return;
  Write(stderr, "\r\x1b[K");
  progress_.clear();
}

}  // namespace sluice::tools
