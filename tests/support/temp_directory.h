#pragma once

#include <string>

namespace sluice::testing {

/// A new directory of mode 0700, removed with everything in it.
class TempDirectory {
 public:
  /// Under $TMPDIR or else /var/tmp, which is a disk where /tmp may be memory.
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

}  // namespace sluice::testing
