#include "tools/train/console.h"

#include <unistd.h>

#include "fmt/format.h"

namespace sluice::tools {

Console::Console(Mode mode) : mode_(mode), terminal_(isatty(STDERR_FILENO) == 1) {}

Console::~Console() {
  base::MutexLock lock(mutex_);
  WipeProgress();
}

void Console::Print(std::string_view text) {
  base::MutexLock lock(mutex_);
  WipeProgress();
  std::FILE* const out = mode_ == Mode::kJson ? stderr : stdout;
  std::fwrite(text.data(), 1, text.size(), out);
  std::fflush(out);
}

void Console::PrintJson(std::string_view json) {
  if (mode_ != Mode::kJson) return;
  base::MutexLock lock(mutex_);
  WipeProgress();
  std::fwrite(json.data(), 1, json.size(), stdout);
  std::fflush(stdout);
}

void Console::ShowProgress(const std::string& line) {
  if (!terminal_) return;
  base::MutexLock lock(mutex_);
  WipeProgress();
  progress_ = line;
  fmt::print(stderr, "{}", progress_);
  std::fflush(stderr);
}

void Console::Log(LogLevel level, std::string_view line) {
  if (level == LogLevel::kInfo) return;
  base::MutexLock lock(mutex_);
  WipeProgress();
  fmt::print(stderr, "sluice: {}{}\n", level == LogLevel::kWarning ? "warning: " : "", line);
}

void Console::WipeProgress() {
  if (progress_.empty()) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  progress_.clear();
}

}  // namespace sluice::tools
