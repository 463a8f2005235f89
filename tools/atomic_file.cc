#include "tools/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"

namespace sluice::tools {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

absl::Status SyncDirectory(const std::string& path) {
  std::filesystem::path directory = std::filesystem::path(path).parent_path();
  if (directory.empty()) directory = ".";
  const int descriptor = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return base::StatusFromErrno(errno, "open " + directory.string());
  const int result = fsync(descriptor);
  const int error = errno;
  close(descriptor);
  // Some file systems cannot sync a directory; the file itself is safe.
  if (result != 0 && error != EINVAL)
    return base::StatusFromErrno(error, "sync " + directory.string());
  return absl::OkStatus();
}

}  // namespace

AtomicFile::AtomicFile(OutputPath output, std::string temporary, int descriptor)
    : path_(std::move(output.path)),
      kind_(output.kind),
      temporary_(std::move(temporary)),
      descriptor_(descriptor) {
  buffer_.reserve(kBufferBytes);
}

absl::StatusOr<std::unique_ptr<AtomicFile>> AtomicFile::Create(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(OutputPath output, ResolveOutput(path));
  const bool is_stream = output.kind == OutputPath::Kind::kStream;
  std::string temporary;
  if (!is_stream) temporary = fmt::format("{}.partial-{}", output.path, getpid());
  const char* const opened = is_stream ? output.path.c_str() : temporary.c_str();
  const int flags = is_stream ? O_WRONLY | O_NOCTTY : O_WRONLY | O_CREAT | O_EXCL;
  const int descriptor = open(opened, flags | O_CLOEXEC, 0666);
  if (descriptor < 0) return base::StatusFromErrno(errno, fmt::format("create {}", opened));
  return std::unique_ptr<AtomicFile>(
      new AtomicFile(std::move(output), std::move(temporary), descriptor));
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty() && !published_) unlink(temporary_.c_str());
}

absl::Status AtomicFile::Append(std::string_view bytes) {
  SLUICE_RETURN_IF_ERROR(status_);
  if (buffer_.size() + bytes.size() > kBufferBytes) SLUICE_RETURN_IF_ERROR(Flush());
  buffer_.append(bytes);
  return absl::OkStatus();
}

absl::Status AtomicFile::Flush() {
  std::string_view rest = buffer_;
  while (!rest.empty()) {
    const ssize_t written = write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return status_ = base::StatusFromErrno(errno, "write " + path_);
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  buffer_.clear();
  return absl::OkStatus();
}

absl::Status AtomicFile::Commit() {
  SLUICE_RETURN_IF_ERROR(status_);
  SLUICE_RETURN_IF_ERROR(Flush());
  return status_ = Publish();
}

absl::Status AtomicFile::Publish() {
  // A stream has nothing to sync, and no name to be given.
  const bool is_stream = kind_ == OutputPath::Kind::kStream;
  if (!is_stream && fsync(descriptor_) != 0) return base::StatusFromErrno(errno, "sync " + path_);
  const int closed = close(std::exchange(descriptor_, -1));
  if (closed != 0) return base::StatusFromErrno(errno, "close " + path_);
  if (is_stream) return absl::OkStatus();
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    return base::StatusFromErrno(errno, "rename to " + path_);
  }
  published_ = true;
  return SyncDirectory(path_);
}

}  // namespace sluice::tools
