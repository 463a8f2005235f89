#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace sluice::testing {

/// A cgroup below this process's own with a memory limit, of version 1 or 2. It goes away with its
/// processes. Making one needs root.
class LimitedCgroup {
 public:
  explicit LimitedCgroup(std::uint64_t bytes);
  ~LimitedCgroup();
  LimitedCgroup(const LimitedCgroup&) = delete;
  LimitedCgroup& operator=(const LimitedCgroup&) = delete;

  /// Whether the cgroup was made.
  bool limited() const { return limited_; }
  /// The file that takes its processes.
  std::string processes() const { return path_ / "cgroup.procs"; }
  /// Counters of the kernel for the cgroup, for the message of a failed test: a line per file, then
  /// the lines of memory.stat.
  std::string Describe() const;

 private:
  std::filesystem::path path_;
  bool made_ = false;
  bool limited_ = false;
};

}  // namespace sluice::testing
