#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <span>
#include <vector>

#include "gtest/gtest.h"

namespace sluice::testing {

/// Tries addresses safely: the kernel answers EFAULT in place of a signal.
class MemoryTouch {
 public:
  MemoryTouch() { EXPECT_EQ(pipe2(ends_, O_CLOEXEC | O_NONBLOCK), 0); }
  ~MemoryTouch() {
    close(ends_[0]);
    close(ends_[1]);
  }
  MemoryTouch(const MemoryTouch&) = delete;
  MemoryTouch& operator=(const MemoryTouch&) = delete;

  bool Readable(const std::byte* at) {
    if (write(ends_[1], at, 1) != 1) return false;
    std::byte taken;
    return read(ends_[0], &taken, 1) == 1;
  }
  /// Writes the byte that is there.
  bool Writable(const std::byte* at) {
    EXPECT_EQ(write(ends_[1], at, 1), 1) << "unreadable";
    if (read(ends_[0], const_cast<std::byte*>(at), 1) == 1) return true;
    std::byte taken;
    EXPECT_EQ(read(ends_[0], &taken, 1), 1);
    return false;
  }

 private:
  int ends_[2] = {-1, -1};
};

}  // namespace sluice::testing
