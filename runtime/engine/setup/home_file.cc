#include "runtime/engine/setup/home_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "runtime/engine/views/view_mapping.h"

namespace sluice::engine {
namespace {

absl::StatusOr<struct stat> Stat(int descriptor, const std::string& path) {
  struct stat facts {};
  if (fstat(descriptor, &facts) == 0) return facts;
  return base::StatusFromErrno(errno, fmt::format("stat {}", path));
}

}  // namespace

HomeFile::HomeFile(int descriptor, FileHome home)
    : descriptor_(descriptor), home_(std::move(home)) {}

HomeFile::~HomeFile() { close(descriptor_); }

absl::StatusOr<std::shared_ptr<HomeFile>> HomeFile::Open(const FileHome& home,
                                                         std::uint64_t bytes) {
  const int descriptor = open(home.path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return base::StatusFromErrno(errno, fmt::format("open {}", home.path));
  std::shared_ptr<HomeFile> file(new HomeFile(descriptor, home));
  SLUICE_RETURN_IF_ERROR(file->NoteFacts(bytes));
  return file;
}

absl::Status HomeFile::NoteFacts(std::uint64_t bytes) {
  SLUICE_ASSIGN_OR_RETURN(const struct stat facts, Stat(descriptor_, home_.path));
  if (!S_ISREG(facts.st_mode)) {
    return absl::InvalidArgumentError(fmt::format("{} is not a regular file", home_.path));
  }
  file_bytes_ = static_cast<std::uint64_t>(facts.st_size);
  changed_ = facts.st_mtim;
  if (home_.offset <= file_bytes_ && bytes <= file_bytes_ - home_.offset) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("{} has {} bytes; {} from offset {} are asked for",
                                                home_.path,
                                                file_bytes_,
                                                bytes,
                                                home_.offset));
}

/// Asked after a read: bytes that were read before a change are those of before.
absl::Status HomeFile::CheckUnchanged() const {
  if (!home_.read_only) return absl::OkStatus();
  SLUICE_ASSIGN_OR_RETURN(const struct stat facts, Stat(descriptor_, home_.path));
  const bool same = static_cast<std::uint64_t>(facts.st_size) == file_bytes_ &&
                    facts.st_mtim.tv_sec == changed_.tv_sec &&
                    facts.st_mtim.tv_nsec == changed_.tv_nsec;
  if (same) return absl::OkStatus();
  return absl::DataLossError(fmt::format(
      "{} has changed since its tensors were created: another program writes it", home_.path));
}

absl::Status HomeFile::Read(std::uint64_t offset, std::span<std::byte> out) const {
  std::uint64_t done = 0;
  while (done < out.size()) {
    const std::uint64_t at = home_.offset + offset + done;
    const ssize_t count =
        pread(descriptor_, out.data() + done, out.size() - done, static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return base::StatusFromErrno(errno, fmt::format("read {} at offset {}", home_.path, at));
    }
    if (count == 0) {
      return absl::DataLossError(fmt::format("{} ends at offset {}", home_.path, at));
    }
    done += static_cast<std::uint64_t>(count);
  }
  return CheckUnchanged();
}

absl::Status HomeFile::MapForReading(std::span<std::byte> at, std::uint64_t offset) const {
  return base::Annotate(MapFile(at, descriptor_, home_.offset + offset), home_.path);
}

}  // namespace sluice::engine
