#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "io/blocking_engine.h"
#include "io/io_engine.h"

namespace sluice::io {
namespace {

constexpr std::uint32_t kThreadsMax = 16;

std::int64_t PreadOrPwrite(const IoCommand& command) {
  const auto offset = static_cast<off_t>(command.offset);
  const ssize_t moved = command.direction == IoDirection::kRead
                            ? pread(command.file->fd, command.data, command.bytes, offset)
                            : pwrite(command.file->fd, command.data, command.bytes, offset);
  return moved >= 0 ? moved : -errno;
}

}  // namespace

absl::StatusOr<std::unique_ptr<IoEngine>> MakeThreadEngine(const IoEngineOptions& options) {
  return BlockingEngine::Create(
      BlockingEngine::Options{.name = "threads",
                              .threads = std::min(options.queue_depth, kThreadsMax),
                              .cpus = options.cpus},
      PreadOrPwrite);
}

}  // namespace sluice::io
