#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace sluice::testing {

/// Whether the byte can be read. The kernel reads it, so there is no fault.
inline bool IsReadable(const std::byte* address) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  const ssize_t written = write(ends[1], address, 1);
  close(ends[0]);
  close(ends[1]);
  return written == 1;
}

}  // namespace sluice::testing
