#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "io/engine/blocking_engine.h"
#include "io/engine/io_engine.h"

namespace sluice::io {
namespace {

constexpr std::uint32_t kThreadsMax = 16;

std::int64_t Perform(const IoCommand& command) {
  const int fd = command.file->fd;
  const auto offset = static_cast<off_t>(command.offset);
  const auto bytes = static_cast<off_t>(command.bytes);
  ssize_t result = 0;
  switch (command.direction) {
    case IoDirection::kRead:
      result = pread(fd, command.data, command.bytes, offset);
      break;
    case IoDirection::kWrite:
      result = pwrite(fd, command.data, command.bytes, offset);
      break;
    case IoDirection::kWriteBack:
      result = sync_file_range(fd, offset, bytes, kWriteBackFlags);
      break;
    case IoDirection::kDropCache:
      return -posix_fadvise(fd, offset, bytes, POSIX_FADV_DONTNEED);
  }
  return result >= 0 ? result : -errno;
}

}  // namespace

absl::StatusOr<std::unique_ptr<IoEngine>> MakeThreadEngine(const IoEngineOptions& options) {
  return BlockingEngine::Create(
      BlockingEngine::Options{.name = "threads",
                              .threads = std::min(options.queue_depth, kThreadsMax),
                              .bytes_in_flight_max = options.bytes_in_flight_max,
                              .cpus = options.cpus},
      Perform);
}

}  // namespace sluice::io
