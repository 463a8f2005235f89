#include "base/new_file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"

namespace sluice::base {
namespace {

constexpr int kNameTriesMax = 16;
/// Bytes after which writeback is started. Twice as many are in memory alone at most.
constexpr std::uint64_t kDirtyBytesMax = std::uint64_t{8} << 20;

std::string DirectoryOf(const std::string& path) {
  std::string directory = std::filesystem::path(path).parent_path().string();
  return directory.empty() ? "." : directory;
}

/// A name of its own length: with the file's name in it, it could be too long.
absl::StatusOr<std::string> RandomNameIn(const std::string& directory) {
  std::uint64_t number = 0;
  if (getrandom(&number, sizeof(number), 0) != sizeof(number)) {
    return StatusFromErrno(errno, "getrandom");
  }
  return fmt::format("{}/.sluice-{:016x}.partial", directory, number);
}

/// The limit is asked before the write, which would raise SIGXFSZ in the caller's thread.
absl::Status CheckFileSizeLimit(const std::string& path, std::uint64_t bytes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(ToAbsl(fmt::format(
      "write {}: the limit of file sizes is {} bytes (see ulimit -f)", path, limit.rlim_cur)));
}

absl::Status FailedTo(const char* call, const std::string& path) {
  return StatusFromErrno(errno, fmt::format("{} {}", call, path));
}

/// File systems of the kernel (/proc) answer ENOENT where they take no new file.
absl::Status DescribeCreateFailure(const std::string& path, const std::string& directory) {
  if (errno != ENOENT) return FailedTo("create", path);
  return absl::InvalidArgumentError(
      ToAbsl(fmt::format("no file can be made in {}; name another directory", directory)));
}

}  // namespace

NewFile::NewFile(std::string path, const NewFileOptions& options)
    : path_(std::move(path)),
      directory_(DirectoryOf(path_)),
      mode_(options.mode),
      calls_(options.calls != nullptr ? *options.calls : kernel_) {}

absl::StatusOr<std::unique_ptr<NewFile>> NewFile::Create(std::string path,
                                                         const NewFileOptions& options) {
  std::unique_ptr<NewFile> file(new NewFile(std::move(path), options));
  SLUICE_RETURN_IF_ERROR(file->OpenDirectory());
  SLUICE_RETURN_IF_ERROR(file->Open());
  return file;
}

NewFile::~NewFile() {
  if (fd_ >= 0) calls_.Close(fd_);
  if (!temporary_.empty()) calls_.Unlink(temporary_);
  if (directory_fd_ >= 0) calls_.Close(directory_fd_);
}

/// The directory is opened now: one that cannot be synced should not cost the work before.
absl::Status NewFile::OpenDirectory() {
  directory_fd_ = calls_.Open(directory_, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (directory_fd_ >= 0) return absl::OkStatus();
  if (errno != ENOENT) return FailedTo("open directory", directory_);
  return absl::NotFoundError(ToAbsl(fmt::format("directory {} does not exist", directory_)));
}

template <typename Take>
absl::StatusOr<std::string> NewFile::TakeRandomName(const Take& take) {
  for (int tries = 0; tries < kNameTriesMax; ++tries) {
    SLUICE_ASSIGN_OR_RETURN(std::string name, RandomNameIn(directory_));
    if (take(name) >= 0) return name;
    if (errno != EEXIST) break;
  }
  return DescribeCreateFailure(path_, directory_);
}

/// Any refusal of a nameless file leads to a named one, which tells better why there can be none.
absl::Status NewFile::Open() {
  fd_ = calls_.Open(directory_, O_TMPFILE | O_WRONLY | O_CLOEXEC, mode_);
  if (fd_ >= 0) return absl::OkStatus();
  SLUICE_ASSIGN_OR_RETURN(temporary_, TakeRandomName([this](const std::string& name) {
                            return fd_ = calls_.Open(
                                       name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode_);
                          }));
  return absl::OkStatus();
}

absl::Status NewFile::WriteAt(std::uint64_t offset, std::span<const std::byte> bytes) {
  SLUICE_RETURN_IF_ERROR(status_);
  return status_ = WriteAll(offset, bytes);
}

absl::Status NewFile::WriteAll(std::uint64_t offset, std::span<const std::byte> bytes) {
  SLUICE_RETURN_IF_ERROR(CheckFileSizeLimit(path_, offset + bytes.size()));
  while (!bytes.empty()) {
    // Few at a time: otherwise one call could fill memory.
    const std::size_t size = std::min<std::size_t>(bytes.size(), kDirtyBytesMax);
    const ssize_t done = calls_.Write(fd_, bytes.data(), size, static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done == 0) errno = EIO;  // a file system that takes nothing and says nothing
    if (done <= 0) return FailedTo("write", path_);
    bytes = bytes.subspan(static_cast<std::size_t>(done));
    offset += static_cast<std::uint64_t>(done);
    end_ = std::max(end_, offset);
    SLUICE_RETURN_IF_ERROR(BoundDirtyBytes(static_cast<std::uint64_t>(done)));
  }
  return absl::OkStatus();
}

/// File systems that do not know the call leave all to the sync.
absl::Status NewFile::BoundDirtyBytes(std::uint64_t more) {
  dirty_ += more;
  if (dirty_ < kDirtyBytesMax) return absl::OkStatus();
  dirty_ = 0;
  if (calls_.StartWriteback(fd_) == 0) return absl::OkStatus();
  const bool lost = errno == EIO || errno == ENOSPC || errno == EDQUOT;
  return lost ? FailedTo("write", path_) : absl::OkStatus();
}

absl::Status NewFile::Commit() {
  SLUICE_RETURN_IF_ERROR(status_);
  status_ = Publish();
  if (!status_.ok()) return status_;
  status_ = absl::FailedPreconditionError(ToAbsl(path_ + " has been written"));
  return absl::OkStatus();
}

absl::Status NewFile::Publish() {
  if (Sync(fd_) != 0) return FailedTo("sync", path_);
  // rename(2) replaces what is there, linkat(2) does not.
  if (temporary_.empty()) {
    SLUICE_ASSIGN_OR_RETURN(temporary_, TakeRandomName([this](const std::string& name) {
                              return calls_.Link(fd_, name);
                            }));
    // A file system may have logged nothing of a file that had no name (btrfs).
    if (Sync(fd_) != 0) return FailedTo("sync", path_);
  }
  SLUICE_RETURN_IF_ERROR(Close());
  if (calls_.Rename(temporary_, path_) != 0) {
    return FailedTo("rename to", errno == EISDIR ? path_ + " (a directory; move it away)" : path_);
  }
  temporary_.clear();
  return SyncDirectory();
}

/// NFS may tell an error of writing only here. After the sync EINTR loses nothing.
absl::Status NewFile::Close() {
  const int closed = calls_.Close(std::exchange(fd_, -1));
  return closed == 0 || errno == EINTR ? absl::OkStatus() : FailedTo("close", path_);
}

/// Some file systems cannot sync a directory (EINVAL). The file itself is on the disk by then.
absl::Status NewFile::SyncDirectory() {
  if (Sync(directory_fd_) == 0 || errno == EINVAL) return absl::OkStatus();
  return FailedTo("sync", directory_);
}

/// FUSE and NFS let a signal interrupt a sync.
int NewFile::Sync(int fd) {
  int result = calls_.Sync(fd);
  while (result != 0 && errno == EINTR) result = calls_.Sync(fd);
  return result;
}

}  // namespace sluice::base
