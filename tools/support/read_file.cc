#include "tools/support/read_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "fmt/format.h"
#include "tools/support/exit_code.h"

namespace sluice::tools {
namespace {

/// The error as a mistake of the user, who named the file, whatever is wrong with it.
absl::Status UserError(const std::string& what) {
  absl::Status status = base::StatusFromErrno(errno, what);
  if (ExitCodeOf(status) == kExitUserError) return status;
  return absl::InvalidArgumentError(status.message());
}

/// Regular files and pipes have an end; devices may have none.
absl::Status CheckKind(int descriptor, const std::string& path) {
  struct stat info {};
  if (fstat(descriptor, &info) != 0) return UserError("fstat " + path);
  if (S_ISREG(info.st_mode) || S_ISFIFO(info.st_mode)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} is a {}; name files or pipes",
                  path,
                  S_ISDIR(info.st_mode) ? "directory" : "device or socket"));
}

/// Blocks until a descriptor that does not block has bytes or its end. A signal's handler runs
/// meanwhile. ThreadSanitizer would hold it back during a read that blocks.
void WaitForBytes(int descriptor) {
  struct pollfd ready = {.fd = descriptor, .events = POLLIN, .revents = 0};
  static_cast<void>(poll(&ready, 1, -1));
}

absl::Status ReadAll(int descriptor,
                     const std::string& path,
                     Bytes bytes_max,
                     const PieceSink& sink) {
  std::vector<char> buffer(std::size_t{64} << 10);
  std::uint64_t left = bytes_max.count();
  for (;;) {
    const ssize_t count = read(descriptor, buffer.data(), buffer.size());
    if (count == 0) return absl::OkStatus();
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) {
      WaitForBytes(descriptor);
      continue;
    }
    if (count < 0) return UserError("read " + path);
    const auto bytes = static_cast<std::size_t>(count);
    if (bytes > left) {
      return absl::InvalidArgumentError(
          fmt::format("{} is too large; at most {} are read", path, ToString(bytes_max)));
    }
    left -= bytes;
    SLUICE_RETURN_IF_ERROR(sink({buffer.data(), bytes}));
  }
}

absl::Status ReadStandardInput(Bytes bytes_max, const PieceSink& sink) {
  const std::string name = "standard input";
  if (isatty(STDIN_FILENO) != 0) {
    return absl::InvalidArgumentError(
        name + " is a terminal; lead a file or a pipe into it, as in: cat FILE | sluice ...");
  }
  SLUICE_RETURN_IF_ERROR(CheckKind(STDIN_FILENO, name));
  return ReadAll(STDIN_FILENO, name, bytes_max, sink);
}

}  // namespace

absl::Status ReadFile(const std::string& path, Bytes bytes_max, const PieceSink& sink) {
  if (path == kStandardInput) return ReadStandardInput(bytes_max, sink);
  // The open does not block, as a named pipe without a writer would hold it up for ever.
  const int descriptor = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (descriptor < 0 && errno == ENOENT) return absl::NotFoundError(path + " does not exist");
  if (descriptor < 0) return UserError("open " + path);
  absl::Status status = CheckKind(descriptor, path);
  if (status.ok()) status = ReadAll(descriptor, path, bytes_max, sink);
  close(descriptor);
  return status;
}

}  // namespace sluice::tools
