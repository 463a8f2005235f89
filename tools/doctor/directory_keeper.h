#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <utility>

namespace sluice::tools {

/// Removes a directory again that was not there before: looking at the default spill directory
/// makes it. Only an empty one, because another process may have begun to use it.
class DirectoryKeeper {
 public:
  explicit DirectoryKeeper(std::string path) : path_(std::move(path)) {
    struct stat info {};
    was_there_ = lstat(path_.c_str(), &info) == 0;
  }
  ~DirectoryKeeper() {
    if (!was_there_) rmdir(path_.c_str());
  }
  DirectoryKeeper(const DirectoryKeeper&) = delete;
  DirectoryKeeper& operator=(const DirectoryKeeper&) = delete;

 private:
  const std::string path_;
  bool was_there_ = false;
};

}  // namespace sluice::tools
