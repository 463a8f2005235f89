#include "tools/support/output/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <span>
#include <utility>

#include "base/status.h"

namespace sluice::tools {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{256} << 10;

}  // namespace

AtomicFile::AtomicFile(OutputPath output) : path_(std::move(output.path)), kind_(output.kind) {
  buffer_.reserve(kBufferBytes);
}

absl::StatusOr<std::unique_ptr<AtomicFile>> AtomicFile::Create(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(OutputPath output, ResolveOutput(path));
  std::unique_ptr<AtomicFile> file(new AtomicFile(std::move(output)));
  SLUICE_RETURN_IF_ERROR(file->Open());
  return file;
}

AtomicFile::~AtomicFile() {
  if (stream_ >= 0) close(stream_);
}

absl::Status AtomicFile::Open() {
  if (kind_ == OutputPath::Kind::kFile) {
    SLUICE_ASSIGN_OR_RETURN(file_, base::NewFile::Create(path_));
    return absl::OkStatus();
  }
  stream_ = open(path_.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC);
  return stream_ >= 0 ? absl::OkStatus() : base::StatusFromErrno(errno, "open " + path_);
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
  status_ = file_ != nullptr ? file_->Write(std::as_bytes(std::span(buffer_))) : WriteToStream();
  buffer_.clear();
  return status_;
}

absl::Status AtomicFile::WriteToStream() {
  std::string_view rest = buffer_;
  while (!rest.empty()) {
    const ssize_t written = write(stream_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return base::StatusFromErrno(errno, "write " + path_);
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status AtomicFile::Commit() {
  SLUICE_RETURN_IF_ERROR(status_);
  SLUICE_RETURN_IF_ERROR(Flush());
  return status_ = Finish();
}

/// A stream has nothing to sync, and no name to be given.
absl::Status AtomicFile::Finish() { return file_ != nullptr ? file_->Commit() : CloseStream(); }

absl::Status AtomicFile::CloseStream() {
  const int closed = close(std::exchange(stream_, -1));
  return closed == 0 ? absl::OkStatus() : base::StatusFromErrno(errno, "close " + path_);
}

}  // namespace sluice::tools
