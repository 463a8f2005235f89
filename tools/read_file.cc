#include "tools/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <vector>

#include "base/status.h"
#include "fmt/format.h"
#include "tools/exit_code.h"

namespace sluice::tools {
namespace {

/// Whatever is wrong with it, the user named it.
absl::Status UserError(const std::string& what) {
  absl::Status status = base::StatusFromErrno(errno, what);
  if (ExitCodeOf(status) == kExitUserError) return status;
  return absl::InvalidArgumentError(status.message());
}

bool IsDirectory(int descriptor) {
  struct stat info {};
  return fstat(descriptor, &info) == 0 && S_ISDIR(info.st_mode);
}

absl::Status ReadAll(int descriptor, const std::string& path, const PieceSink& sink) {
  if (IsDirectory(descriptor)) {
    return absl::InvalidArgumentError(fmt::format("{} is a directory; name files", path));
  }
  std::vector<char> buffer(std::size_t{64} << 10);
  for (;;) {
    const ssize_t count = read(descriptor, buffer.data(), buffer.size());
    if (count == 0) return absl::OkStatus();
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return UserError("read " + path);
    sink({buffer.data(), static_cast<std::size_t>(count)});
  }
}

}  // namespace

absl::Status ReadFile(const std::string& path, const PieceSink& sink) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_NOCTTY | O_CLOEXEC);
  if (descriptor < 0) return UserError("open " + path);
  absl::Status status = ReadAll(descriptor, path, sink);
  close(descriptor);
  return status;
}

}  // namespace sluice::tools
