#pragma once

#include <sys/resource.h>

#include <cstdint>

#include "gtest/gtest.h"

namespace sluice::testing {

/// Limit of the size of this process's files: none grows past, or is written behind, `bytes` while
/// the object lives. The effect is that of a full file system, without root, and can be lifted
/// again. Threads: any.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(std::uint64_t bytes) {
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
    const rlimit limit{bytes, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~FileSizeLimit() { EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before_), 0); }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
};

}  // namespace sluice::testing
