#include "io/file/spill_file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "sluice/units.h"

namespace sluice::io {
namespace {

constexpr mode_t kOwnerOnly = 0600;
constexpr int kReserveAttemptsMax = 100;

std::string Describe(const SpillDirectory& directory, std::string_view what) {
  return fmt::format("spill directory {}: {}", directory.path, what);
}

absl::StatusOr<std::string> RandomName() {
  std::array<std::uint64_t, 2> words{};
  if (getrandom(words.data(), sizeof(words), 0) != static_cast<ssize_t>(sizeof(words))) {
    return base::StatusFromErrno(errno, "getrandom");
  }
  return fmt::format(".sluice-{:016x}{:016x}", words[0], words[1]);
}

std::string_view MakeFailure(int error_number) {
  switch (error_number) {
    case EACCES:
      return "no file can be made there, make it writable for its owner (chmod u+rwx): open";
    case EMFILE:
    case ENFILE:
      return "no file can be made, allow more open files (ulimit -n): open";
    default:
      return "no file can be made there, use another directory: open";
  }
}

absl::Status DescribeMakeFailure(const SpillDirectory& directory, int error_number) {
  return base::StatusFromErrno(error_number, Describe(directory, MakeFailure(error_number)));
}

absl::Status NameError(const SpillDirectory& directory) {
  return absl::InternalError(base::ToAbsl(Describe(directory, "the new file has a name")));
}

absl::Status RemoveName(const SpillDirectory& directory, const std::string& name) {
  if (unlinkat(directory.fd.get(), name.c_str(), 0) != 0) {
    return base::StatusFromErrno(errno, Describe(directory, "unlink"));
  }
  struct stat info {};
  const int found = fstatat(directory.fd.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW);
  return found != 0 && errno == ENOENT ? absl::OkStatus() : NameError(directory);
}

/// A regular file with at most `names_max` names.
absl::Status CheckNameless(int fd,
                           std::uint64_t names_max,
                           const SpillDirectory& directory,
                           const SpillFileOptions& options) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return base::StatusFromErrno(errno, Describe(directory, "fstat"));
  const std::uint64_t names = options.ask_names ? options.ask_names(fd) : info.st_nlink;
  if (S_ISREG(info.st_mode) && names <= names_max) return absl::OkStatus();
  return NameError(directory);
}

/// NFS and FUSE keep an open file that was removed under a name of their own (".nfs*",
/// ".fuse_hidden*"). They remove it when the file is closed. NFS counts the name in st_nlink.
absl::StatusOr<FileDescriptor> OpenNamed(const SpillDirectory& directory,
                                         const SpillFileOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(const std::string name, RandomName());
  const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  FileDescriptor fd(openat(directory.fd.get(), name.c_str(), flags, kOwnerOnly));
  if (!fd.valid()) return DescribeMakeFailure(directory, errno);
  SLUICE_RETURN_IF_ERROR(RemoveName(directory, name));
  SLUICE_RETURN_IF_ERROR(CheckNameless(fd.get(), /*names_max=*/1, directory, options));
  return fd;
}

bool LacksTmpfile(int error_number) {
  return error_number == EOPNOTSUPP || error_number == EISDIR || error_number == ENOENT;
}

absl::StatusOr<FileDescriptor> OpenNameless(const SpillDirectory& directory,
                                            const SpillFileOptions& options) {
  if (options.disable_tmpfile) return OpenNamed(directory, options);
  // O_EXCL: nobody can give the file a name later.
  const int flags = O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC;
  FileDescriptor fd(openat(directory.fd.get(), ".", flags, kOwnerOnly));
  if (fd.valid()) {
    SLUICE_RETURN_IF_ERROR(CheckNameless(fd.get(), /*names_max=*/0, directory, options));
    return fd;
  }
  if (LacksTmpfile(errno)) return OpenNamed(directory, options);
  return DescribeMakeFailure(directory, errno);
}

/// f_bavail: what is kept for root alone does not count, even for root.
std::optional<std::uint64_t> FreeBytes(int fd) {
  struct statvfs info {};
  if (fstatvfs(fd, &info) != 0) return std::nullopt;
  return std::uint64_t{info.f_bavail} * info.f_frsize;
}

std::string FreeSpace(int fd) {
  const std::optional<std::uint64_t> bytes = FreeBytes(fd);
  return bytes.has_value() ? ToString(Bytes(*bytes)) : "unknown";
}

absl::Status DescribeReserveFailure(const SpillDirectory& directory,
                                    std::uint64_t bytes,
                                    int error_number) {
  const std::string what = Describe(
      directory,
      fmt::format(
          "cannot reserve {} ({} free)", ToString(Bytes(bytes)), FreeSpace(directory.fd.get())));
  if (error_number == ENOSPC || error_number == EDQUOT) {
    return base::StatusFromErrno(error_number,
                                 what + "; make room there or use a directory elsewhere");
  }
  if (error_number == ECANCELED) return absl::CancelledError(base::ToAbsl(what + ": stopped"));
  return base::StatusFromErrno(error_number, what);
}

// Mode 0, so that the length is final: writes that extend a file take its lock and serialise.
int Allocate(int fd, const SpillFileOptions& options) {
  if (options.allocate) return options.allocate(fd, options.bytes);
  return fallocate(fd, 0, 0, static_cast<off_t>(options.bytes)) == 0 ? 0 : errno;
}

/// The file system, the kernel (gVisor) or a seccomp profile does not know fallocate(2). The
/// emulation of glibc's posix_fallocate is no help: it reads and writes each block.
bool LacksFallocate(int error_number) {
  return error_number == EOPNOTSUPP || error_number == ENOSYS;
}

/// Whether bytes are missing for this file and later ones. A file system that tells no size (some
/// of FUSE) has to be tried.
bool IsTooFull(const SpillDirectory& directory, const SpillFileOptions& options) {
  struct statvfs info {};
  if (fstatvfs(directory.fd.get(), &info) != 0 || info.f_blocks == 0) return false;
  const std::uint64_t free = std::uint64_t{info.f_bavail} * info.f_frsize;
  return free < options.bytes + options.bytes_to_come;
}

/// Writes the file in full. Returns 0 or an errno.
int FillInstead(int fd,
                const std::string& reason,
                const SpillDirectory& directory,
                const SpillFileOptions& options) {
  if (IsTooFull(directory, options)) return ENOSPC;
  const auto tell = [&](std::uint64_t filled) {
    if (options.on_fill) options.on_fill({directory.path, reason, filled, options.bytes});
    return !options.stop_fill || !options.stop_fill();
  };
  if (!tell(0)) return ECANCELED;
  return FillFile(fd, options.bytes, tell);
}

absl::Status RefuseToFill(const SpillDirectory& directory, const std::string& reason) {
  return absl::FailedPreconditionError(base::ToAbsl(
      Describe(directory,
               "reserved space is required but refused: " + reason +
                   "; io.reserved_space = \"auto\" allows to write the file in full first")));
}

/// Makes the file sparse, whose space is not reserved.
absl::StatusOr<std::string> SetLength(int fd,
                                      const SpillDirectory& directory,
                                      const SpillFileOptions& options) {
  if (ftruncate(fd, static_cast<off_t>(options.bytes)) == 0) return std::string(kOffByOption);
  return base::StatusFromErrno(errno, Describe(directory, "ftruncate"));
}

/// Returns why the file's space was not reserved; empty when it was.
absl::StatusOr<std::string> Reserve(int fd,
                                    const SpillDirectory& directory,
                                    const SpillFileOptions& options) {
  SLUICE_RETURN_IF_ERROR(CheckFileSizeLimit(directory, options.bytes));
  if (options.reserved_space == Use::kOff) return SetLength(fd, directory, options);
  int error = EINTR;
  for (int i = 0; error == EINTR && i < kReserveAttemptsMax; ++i) error = Allocate(fd, options);
  std::string reason;
  if (LacksFallocate(error)) {
    reason = fmt::format("fallocate is not supported: {}", base::ErrnoName(error));
    if (options.reserved_space == Use::kRequire) return RefuseToFill(directory, reason);
    error = FillInstead(fd, reason, directory, options);
  }
  if (error == 0) return reason;
  // A fallocate or write that fails may keep the space that it got (ext4 does). A child that was
  // forked meanwhile may keep the file.
  const bool given_back = ftruncate(fd, 0) == 0;
  absl::Status status = DescribeReserveFailure(directory, options.bytes, error);
  return given_back ? status : base::Annotate(status, "space not given back");
}

/// Returns why pages are copied on write; empty when they are not. Before anything is reserved, as
/// only a file without bytes takes the flag.
absl::StatusOr<std::string> TurnOffCopying(int fd,
                                           const SpillDirectory& directory,
                                           const SpillFileOptions& options) {
  if (options.nocow == Use::kOff) return WhyCopied(ReadNocow(fd), kOffByOption);
  std::string reason = WhyCopied(options.ask_nocow ? options.ask_nocow(fd) : AskForNocow(fd));
  if (reason.empty() || options.nocow != Use::kRequire) return reason;
  return absl::FailedPreconditionError(base::ToAbsl(
      Describe(directory,
               "writing in place is required but refused: " + reason +
                   "; io.nocow = \"auto\" allows copies, which need space of their own")));
}

/// Returns why the file is buffered; empty when it is O_DIRECT.
absl::StatusOr<std::string> ChooseMode(int fd,
                                       const SpillDirectory& directory,
                                       const SpillFileOptions& options) {
  std::string reason = options.direct == Use::kOff
                           ? std::string(kOffByOption)
                           : TurnOnDirect(fd, options.ask_alignment, options.ask_cache);
  if (reason.empty()) return reason;
  TurnOffReadAhead(fd);
  if (options.direct != Use::kRequire) return reason;
  return absl::FailedPreconditionError(
      base::ToAbsl(Describe(directory,
                            "O_DIRECT is required but refused: " + reason +
                                "; io.direct = \"auto\" allows buffered I/O")));
}

}  // namespace

absl::Status CheckFileSizeLimit(const SpillDirectory& directory, std::uint64_t bytes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(base::ToAbsl(
      Describe(directory,
               fmt::format("cannot reserve {}: the limit of file sizes is {} (see ulimit -f)",
                           ToString(Bytes(bytes)),
                           ToString(Bytes(limit.rlim_cur))))));
}

absl::Status CheckKeepsFree(const SpillDirectory& directory,
                            std::uint64_t bytes,
                            std::uint64_t keep_free_bytes) {
  if (keep_free_bytes == 0) return absl::OkStatus();
  const std::optional<std::uint64_t> free = FreeBytes(directory.fd.get());
  if (!free.has_value()) return base::StatusFromErrno(errno, Describe(directory, "fstatvfs"));
  if (*free >= keep_free_bytes && *free - keep_free_bytes >= bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(base::ToAbsl(
      Describe(directory,
               fmt::format("cannot reserve {}: {} are free, of which {} are to stay free "
                           "(tiers.nvme.keep_free); make room there, use a directory elsewhere, or "
                           "lower one of the two",
                           ToString(Bytes(bytes)),
                           ToString(Bytes(*free)),
                           ToString(Bytes(keep_free_bytes))))));
}

SpillFile::SpillFile(FileDescriptor fd, std::uint64_t bytes, Reasons reasons)
    : fd_(std::move(fd)),
      file_{.fd = fd_.get(), .bytes = bytes, .buffered = !reasons.direct.empty()},
      reasons_(std::move(reasons)) {}

absl::StatusOr<std::unique_ptr<SpillFile>> SpillFile::Create(const SpillDirectory& directory,
                                                             const SpillFileOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(FileDescriptor fd, OpenNameless(directory, options));
  Reasons reasons;
  SLUICE_ASSIGN_OR_RETURN(reasons.nocow, TurnOffCopying(fd.get(), directory, options));
  SLUICE_ASSIGN_OR_RETURN(reasons.reserved_space, Reserve(fd.get(), directory, options));
  SLUICE_ASSIGN_OR_RETURN(reasons.direct, ChooseMode(fd.get(), directory, options));
  return std::unique_ptr<SpillFile>(
      new SpillFile(std::move(fd), options.bytes, std::move(reasons)));
}

}  // namespace sluice::io
