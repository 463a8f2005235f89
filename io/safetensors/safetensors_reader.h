#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "io/safetensors/safetensors_header.h"

namespace sluice::io {

/// A safetensors file that is read piece by piece, through the page cache. Threads: any.
class SafetensorsReader {
 public:
  /// Errors: NotFound, PermissionDenied, InvalidArgument (no regular file, no safetensors file; see
  /// ParseSafetensorsHeader), each naming the path.
  static absl::StatusOr<std::unique_ptr<SafetensorsReader>> Open(const std::string& path);
  ~SafetensorsReader();
  SafetensorsReader(const SafetensorsReader&) = delete;
  SafetensorsReader& operator=(const SafetensorsReader&) = delete;

  const std::string& path() const { return path_; }
  const SafetensorsHeader& header() const { return header_; }
  /// Bytes of the whole file.
  std::uint64_t file_bytes() const { return file_bytes_; }
  /// First byte behind the header, from which the offsets of tensors count.
  std::uint64_t data_begin() const { return data_begin_; }
  /// Tensor of the name; null where the file has none.
  const SafetensorsEntry* Find(const std::string& name) const;
  /// Bytes of the tensor from `offset` on. REQUIRES: it has them. Errors: those of pread(2),
  /// DataLoss (the file has become shorter).
  absl::Status Read(const SafetensorsEntry& tensor,
                    std::uint64_t offset,
                    std::span<std::byte> out) const;
  /// Bytes of the file from `offset` on. Errors: as Read.
  absl::Status ReadAt(std::uint64_t offset, std::span<std::byte> out) const;
  /// Errors: FailedPrecondition where length or time of the last change are no longer those of
  /// Open, or the path leads to another file.
  absl::Status CheckUnchanged() const;

 private:
  SafetensorsReader(std::string path, int descriptor);
  absl::Status ReadHeader();

  const std::string path_;
  const int descriptor_;
  std::uint64_t file_bytes_ = 0;
  timespec changed_{};  ///< time of the last change
  std::uint64_t data_begin_ = 0;
  SafetensorsHeader header_;
  std::map<std::string, std::size_t> index_;  ///< place of each name in the header
};

}  // namespace sluice::io
