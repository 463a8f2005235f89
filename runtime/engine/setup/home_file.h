#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sluice/tensor.h"

namespace sluice::engine {

/// The read-only extent of a file in which a tensor's bytes are at first. Threads: any.
class HomeFile {
 public:
  /// Opens the file and checks that `bytes` follow the home's offset. Errors: NotFound,
  /// PermissionDenied, InvalidArgument (no regular file, or too short: names both sizes).
  static absl::StatusOr<std::shared_ptr<HomeFile>> Open(const FileHome& home, std::uint64_t bytes);
  ~HomeFile();
  HomeFile(const HomeFile&) = delete;
  HomeFile& operator=(const HomeFile&) = delete;

  /// Fills `out` with the tensor's bytes from `offset` on. Blocks. Errors: DataLoss (the file
  /// became shorter, or one that is only read has changed), or the errno's status.
  absl::Status Read(std::uint64_t offset, std::span<std::byte> out) const;
  /// Bytes that the file has from there on.
  std::uint64_t BytesFrom(std::uint64_t offset) const {
    return file_bytes_ - std::min(file_bytes_, home_.offset + offset);
  }
  /// Maps the tensor's bytes from `offset` on read-only at `at`. Errors: those of MapFile.
  absl::Status MapForReading(std::span<std::byte> at, std::uint64_t offset) const;

 private:
  HomeFile(int descriptor, FileHome home);
  absl::Status NoteFacts(std::uint64_t bytes);
  absl::Status CheckUnchanged() const;

  const int descriptor_;
  const FileHome home_;
  std::uint64_t file_bytes_ = 0;
  timespec changed_{};  ///< time of the last change
};

}  // namespace sluice::engine
