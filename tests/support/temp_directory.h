#pragma once

#include <optional>
#include <string>

namespace sluice::testing {

/// A new directory of mode 0700, removed with everything in it.
class TempDirectory {
 public:
  /// Creates a directory under $TMPDIR or else /var/tmp, which is a disk where /tmp may be memory.
  TempDirectory();
  explicit TempDirectory(const std::string& parent);
  ~TempDirectory();
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;

  const std::string& path() const { return path_; }
  /// Names in it, without "." and "..".
  int entries() const;

 private:
  std::string path_;
};

/// Sets an environment variable of this process, and of those it starts, while it lives.
/// Threads: none that reads the environment may run.
class ScopedEnvironment {
 public:
  ScopedEnvironment(const std::string& name, const std::string& value);
  ~ScopedEnvironment();
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

 private:
  std::string name_;
  std::optional<std::string> before_;
};

}  // namespace sluice::testing
