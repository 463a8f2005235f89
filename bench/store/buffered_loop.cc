#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "bench/store/page_buffers.h"
#include "bench/store/plain_loop.h"
#include "bench/store/steps.h"
#include "fmt/format.h"
#include "io/file_descriptor.h"

namespace sluice::bench {
namespace {

/// The same files, opened without O_DIRECT.
using Buffered = std::vector<io::FileDescriptor>;

absl::Status CheckCall(int result, std::string_view call) {
  return result == 0 ? absl::OkStatus() : base::StatusFromErrno(errno, call);
}

absl::Status EmptyCache(int fd) {
  SLUICE_RETURN_IF_ERROR(CheckCall(fdatasync(fd), "fdatasync"));
  // Returns the error.
  const int error = posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  return error == 0 ? absl::OkStatus() : base::StatusFromErrno(error, "posix_fadvise");
}

absl::Status MovePage(int fd, std::uint64_t begin, bool writes, std::span<std::byte> data) {
  std::size_t moved = 0;
  while (moved < data.size()) {
    const auto offset = static_cast<off_t>(begin + moved);
    std::byte* const rest = data.data() + moved;
    const ssize_t count = writes ? pwrite(fd, rest, data.size() - moved, offset)
                                 : pread(fd, rest, data.size() - moved, offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return base::StatusFromErrno(errno, writes ? "pwrite" : "pread");
    if (count == 0) return absl::InternalError("pread: the file ends early");
    moved += static_cast<std::size_t>(count);
  }
  return absl::OkStatus();
}

absl::StatusOr<Buffered> OpenAgain(const io::SpillFiles& files) {
  Buffered opened;
  for (const io::IoFile& file : files.files()) {
    const std::string path = fmt::format("/proc/self/fd/{}", file.fd);
    opened.emplace_back(open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!opened.back().valid()) return base::StatusFromErrno(errno, "open without O_DIRECT");
  }
  return opened;
}

absl::Status EmptyCache(const Buffered& files) {
  for (const io::FileDescriptor& file : files) SLUICE_RETURN_IF_ERROR(EmptyCache(file.get()));
  return absl::OkStatus();
}

/// As the load says, one page after the other. Writes are on the disk at the end.
absl::StatusOr<Sample> MovePages(const io::SpillFiles& places,
                                 const Buffered& files,
                                 const Load& load,
                                 std::span<std::byte> data) {
  const Stretch stretch;
  Steps steps(load);
  for (std::uint32_t left = load.pages(); left > 0; --left) {
    const std::optional<Step> step = steps.Next();
    if (!step.has_value()) break;
    const auto place = places.At(step->page * data.size());
    const auto file = static_cast<std::size_t>(place.file - places.files().data());
    steps.Finished(*step, MovePage(files[file].get(), place.offset, step->writes, data));
  }
  for (const io::FileDescriptor& file : files) {
    if (load.which.direction == Direction::kRead) break;
    SLUICE_RETURN_IF_ERROR(CheckCall(fdatasync(file.get()), "fdatasync"));
  }
  SLUICE_RETURN_IF_ERROR(steps.status());
  return stretch.End(steps.bytes());
}

}  // namespace

absl::StatusOr<Sample> RunBuffered(const io::SpillFiles& files, const Load& load) {
  SLUICE_ASSIGN_OR_RETURN(const Buffered opened, OpenAgain(files));
  Load one = load;
  one.depth = 1;
  SLUICE_ASSIGN_OR_RETURN(const auto buffers,
                          PageBuffers::Create(1, load.which.page_bytes, Pages::kHuge));
  SLUICE_RETURN_IF_ERROR(EmptyCache(opened));
  absl::StatusOr<Sample> sample = MovePages(files, opened, one, (*buffers)[0]);
  SLUICE_RETURN_IF_ERROR(EmptyCache(opened));
  return sample;
}

}  // namespace sluice::bench
