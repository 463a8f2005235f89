#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "base/status.h"
#include "base/strings.h"
#include "bench/store/page_buffers.h"
#include "bench/store/plain_loop.h"
#include "bench/store/steps.h"
#include "fmt/format.h"
#include "io/file_descriptor.h"

namespace sluice::bench {
namespace {

absl::Status CheckCall(int result, std::string_view call) {
  return result == 0 ? absl::OkStatus() : base::StatusFromErrno(errno, call);
}

absl::Status EmptyCache(int fd) {
  SLUICE_RETURN_IF_ERROR(CheckCall(fdatasync(fd), "fdatasync"));
  // Returns the error.
  const int error = posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  return error == 0 ? absl::OkStatus() : base::StatusFromErrno(error, "posix_fadvise");
}

absl::Status MovePage(int fd, const Step& step, std::span<std::byte> data) {
  std::size_t moved = 0;
  while (moved < data.size()) {
    const auto offset = static_cast<off_t>(step.page * data.size() + moved);
    std::byte* const rest = data.data() + moved;
    const ssize_t count = step.writes ? pwrite(fd, rest, data.size() - moved, offset)
                                      : pread(fd, rest, data.size() - moved, offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return base::StatusFromErrno(errno, step.writes ? "pwrite" : "pread");
    if (count == 0) return absl::InternalError("pread: the file ends early");
    moved += static_cast<std::size_t>(count);
  }
  return absl::OkStatus();
}

absl::StatusOr<Sample> MovePages(int fd, const Load& load, std::span<std::byte> data) {
  const Stretch stretch;
  Steps steps(load);
  for (std::uint32_t left = load.pages(); left > 0; --left) {
    const std::optional<Step> step = steps.Next();
    if (!step.has_value()) break;
    steps.Finished(*step, MovePage(fd, *step, data));
  }
  if (load.which.direction != Direction::kRead) {
    SLUICE_RETURN_IF_ERROR(CheckCall(fdatasync(fd), "fdatasync"));
  }
  SLUICE_RETURN_IF_ERROR(steps.status());
  return stretch.End(steps.bytes());
}

}  // namespace

absl::StatusOr<Sample> RunBuffered(int file_fd, const Load& load) {
  const std::string path = fmt::format("/proc/self/fd/{}", file_fd);
  const io::FileDescriptor file(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file.valid()) return base::StatusFromErrno(errno, "open the file without O_DIRECT");
  Load one = load;
  one.depth = 1;
  SLUICE_ASSIGN_OR_RETURN(const auto buffers,
                          PageBuffers::Create(1, load.which.page_bytes, Pages::kHuge));
  SLUICE_RETURN_IF_ERROR(EmptyCache(file.get()));
  absl::StatusOr<Sample> sample = MovePages(file.get(), one, (*buffers)[0]);
  SLUICE_RETURN_IF_ERROR(EmptyCache(file.get()));
  return sample;
}

}  // namespace sluice::bench
