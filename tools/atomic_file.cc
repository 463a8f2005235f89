#include "tools/atomic_file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"

namespace sluice::tools {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{256} << 10;

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

/// A name next to `path` that nobody else takes. It has a length of its own: with `path` in it, it
/// could be too long where `path` is not.
absl::StatusOr<std::string> RandomNameBeside(const std::string& path) {
  std::uint64_t number = 0;
  if (getrandom(&number, sizeof(number), 0) != sizeof(number)) {
    return base::StatusFromErrno(errno, "getrandom");
  }
  return (std::filesystem::path(path).parent_path() /
          fmt::format(".sluice-{:016x}.partial", number))
      .string();
}

/// As the errno says why no file can be made at `path`.
absl::Status CreateError(const std::string& path, int error) {
  if (error != ENOENT) return base::StatusFromErrno(error, "create " + path);
  const std::filesystem::path directory = std::filesystem::path(path).parent_path();
  std::error_code ignored;
  if (!std::filesystem::exists(directory, ignored)) {
    return absl::NotFoundError(fmt::format("directory {} does not exist", directory.string()));
  }
  return absl::InvalidArgumentError(
      fmt::format("no file can be made in {}; name another directory", directory.string()));
}

/// Tries random names beside `path` until `take` does not meet one that exists; the name.
/// `take` answers as a system call does.
template <typename Take>
absl::StatusOr<std::string> TakeRandomName(const std::string& path, const Take& take) {
  constexpr int kTriesMax = 16;
  for (int tries = 0; tries < kTriesMax; ++tries) {
    SLUICE_ASSIGN_OR_RETURN(std::string name, RandomNameBeside(path));
    if (take(name.c_str()) >= 0) return name;
    if (errno != EEXIST) break;
  }
  return CreateError(path, errno);
}

int OpenNameless(const std::string& path) {
  const std::string directory = std::filesystem::path(path).parent_path().string();
  return open(directory.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
}

/// A nameless file is linked through /proc, for which no privilege is needed.
int GiveName(int descriptor, const char* name) {
  const std::string nameless = fmt::format("/proc/self/fd/{}", descriptor);
  return linkat(AT_FDCWD, nameless.c_str(), AT_FDCWD, name, AT_SYMLINK_FOLLOW);
}

}  // namespace

AtomicFile::AtomicFile(OutputPath output) : path_(std::move(output.path)), kind_(output.kind) {
  buffer_.reserve(kBufferBytes);
}

absl::StatusOr<std::unique_ptr<AtomicFile>> AtomicFile::Create(const std::string& path,
                                                               Temporary temporary) {
  SLUICE_ASSIGN_OR_RETURN(OutputPath output, ResolveOutput(path));
  std::unique_ptr<AtomicFile> file(new AtomicFile(std::move(output)));
  SLUICE_RETURN_IF_ERROR(file->kind_ == OutputPath::Kind::kStream ? file->OpenStream()
                                                                  : file->OpenTemporary(temporary));
  return file;
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

absl::Status AtomicFile::OpenStream() {
  descriptor_ = open(path_.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC);
  return descriptor_ >= 0 ? absl::OkStatus() : base::StatusFromErrno(errno, "open " + path_);
}

/// Whatever keeps a file from being nameless, a named one tells better why there can be none.
absl::Status AtomicFile::OpenTemporary(Temporary temporary) {
  if (temporary == Temporary::kNameless) descriptor_ = OpenNameless(path_);
  if (descriptor_ >= 0) return absl::OkStatus();
  SLUICE_ASSIGN_OR_RETURN(temporary_, TakeRandomName(path_, [this](const char* name) {
                            constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
                            return descriptor_ = open(name, kFlags, 0666);
                          }));
  return absl::OkStatus();
}

absl::Status AtomicFile::Append(std::string_view bytes) {
  SLUICE_RETURN_IF_ERROR(status_);
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, kBufferBytes - buffer_.size());
    buffer_.append(piece);
    bytes.remove_prefix(piece.size());
    if (buffer_.size() == kBufferBytes) SLUICE_RETURN_IF_ERROR(Flush());
  }
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
  if (kind_ == OutputPath::Kind::kStream) return Close();
  if (fsync(descriptor_) != 0) return base::StatusFromErrno(errno, "sync " + path_);
  // rename(2) replaces what is there, linkat(2) does not.
  if (temporary_.empty()) {
    SLUICE_ASSIGN_OR_RETURN(temporary_, TakeRandomName(path_, [this](const char* name) {
                              return GiveName(descriptor_, name);
                            }));
  }
  SLUICE_RETURN_IF_ERROR(Close());
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    return base::StatusFromErrno(errno, "rename to " + path_);
  }
  temporary_.clear();
  return SyncDirectory(path_);
}

absl::Status AtomicFile::Close() {
  const int closed = close(std::exchange(descriptor_, -1));
  return closed == 0 ? absl::OkStatus() : base::StatusFromErrno(errno, "close " + path_);
}

}  // namespace sluice::tools
