#include "io/safetensors/safetensors_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "io/file/direct_io.h"

namespace sluice::io {
namespace {

constexpr std::uint64_t kLengthBytes = 8;

absl::Status NoSafetensors(const std::string& path, const std::string& why) {
  return absl::InvalidArgumentError(fmt::format("{} is no safetensors file: {}", path, why));
}

}  // namespace

absl::StatusOr<std::unique_ptr<SafetensorsReader>> SafetensorsReader::Open(
    const std::string& path) {
  // O_NONBLOCK: no wait for the other end of a pipe.
  const int descriptor = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (descriptor < 0 && errno == ENOENT) return absl::NotFoundError(path + " does not exist");
  if (descriptor < 0) return base::StatusFromErrno(errno, "open " + path);
  TurnOffReadAhead(descriptor);  // others read the bytes behind the header directly
  auto reader = std::unique_ptr<SafetensorsReader>(new SafetensorsReader(path, descriptor));
  SLUICE_RETURN_IF_ERROR(reader->ReadHeader());
  return reader;
}

SafetensorsReader::SafetensorsReader(std::string path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {}

SafetensorsReader::~SafetensorsReader() {
  close(descriptor_);  // the file was only read, so errors do not matter
}

absl::Status SafetensorsReader::ReadHeader() {
  struct stat info {};
  if (fstat(descriptor_, &info) != 0) return base::StatusFromErrno(errno, "fstat " + path_);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(fmt::format("{} is no regular file", path_));
  }
  const auto size = static_cast<std::uint64_t>(info.st_size);
  file_bytes_ = size;
  changed_ = info.st_mtim;
  if (size < kLengthBytes) return NoSafetensors(path_, fmt::format("it has {} bytes", size));
  unsigned char length[kLengthBytes];
  SLUICE_RETURN_IF_ERROR(ReadAt(0, std::as_writable_bytes(std::span(length))));
  std::uint64_t bytes = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;) bytes = bytes << 8 | length[i];
  const std::uint64_t most = std::min(size - kLengthBytes, kSafetensorsHeaderBytesMax);
  if (bytes > most) {
    return NoSafetensors(path_,
                         fmt::format("its header would have {} bytes, at most {}", bytes, most));
  }
  std::string json(bytes, '\0');
  SLUICE_RETURN_IF_ERROR(ReadAt(kLengthBytes, std::as_writable_bytes(std::span(json))));
  data_begin_ = kLengthBytes + bytes;
  absl::StatusOr<SafetensorsHeader> header = ParseSafetensorsHeader(json, size - data_begin_);
  if (!header.ok()) return base::Annotate(header.status(), path_);
  header_ = *std::move(header);
  for (std::size_t i = 0; i < header_.tensors.size(); ++i) index_[header_.tensors[i].name] = i;
  return absl::OkStatus();
}

const SafetensorsEntry* SafetensorsReader::Find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &header_.tensors[found->second];
}

absl::Status SafetensorsReader::Read(const SafetensorsEntry& tensor,
                                     std::uint64_t offset,
                                     std::span<std::byte> out) const {
  SLUICE_CHECK(offset <= tensor.bytes && out.size() <= tensor.bytes - offset,
               "a tensor is read within its bytes");
  return ReadAt(data_begin_ + tensor.offset + offset, out);
}

absl::Status SafetensorsReader::CheckUnchanged() const {
  struct stat info {};
  if (fstat(descriptor_, &info) != 0) return base::StatusFromErrno(errno, "fstat " + path_);
  const bool same = static_cast<std::uint64_t>(info.st_size) == file_bytes_ &&
                    info.st_mtim.tv_sec == changed_.tv_sec &&
                    info.st_mtim.tv_nsec == changed_.tv_nsec;
  // A new file under the same name is another one to all who open it by path.
  struct stat named {};
  const bool is_named = stat(path_.c_str(), &named) == 0 && named.st_ino == info.st_ino &&
                        named.st_dev == info.st_dev;
  if (same && is_named) return absl::OkStatus();
  return absl::FailedPreconditionError(base::ToAbsl(fmt::format(
      "{} has changed since it was opened: another program writes it; open it again", path_)));
}

absl::Status SafetensorsReader::ReadAt(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t done = pread(descriptor_, out.data(), out.size(), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return base::StatusFromErrno(errno, "read " + path_);
    if (done == 0) {
      return absl::DataLossError(
          fmt::format("{} has become shorter: it ends at byte {}; another "
                      "program writes it",
                      path_,
                      offset));
    }
    out = out.subspan(static_cast<std::size_t>(done));
    offset += static_cast<std::uint64_t>(done);
  }
  return absl::OkStatus();
}

}  // namespace sluice::io
