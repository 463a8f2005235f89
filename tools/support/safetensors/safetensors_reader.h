#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/support/safetensors/safetensors_header.h"

namespace sluice::tools {

/// A safetensors file that is read piece by piece. Threads: any.
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
  /// Null where the file has none of the name.
  const SafetensorsEntry* Find(const std::string& name) const;
  /// Bytes of the tensor from `offset` on. REQUIRES: it has them. Errors: those of pread(2),
  /// DataLoss (the file has become shorter).
  absl::Status Read(const SafetensorsEntry& tensor,
                    std::uint64_t offset,
                    std::span<std::byte> out) const;

 private:
  SafetensorsReader(std::string path, int descriptor);
  absl::Status ReadHeader();
  absl::Status ReadAt(std::uint64_t offset, std::span<std::byte> out) const;

  const std::string path_;
  const int descriptor_;
  std::uint64_t data_begin_ = 0;  ///< first byte behind the header
  SafetensorsHeader header_;
  std::map<std::string, std::size_t> index_;  ///< place of each name in the header
};

}  // namespace sluice::tools
