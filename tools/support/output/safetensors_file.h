#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sluice/tensor.h"
#include "tools/support/output/atomic_file.h"

namespace sluice::tools {

/// A file in the safetensors format, written front to back. Without Commit nothing is left behind.
/// Threads: externally synchronised.
class SafetensorsFile {
 public:
  /// Names the file; nothing is in it yet. Errors: as AtomicFile.
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Create(const std::string& path);

  /// What follows: these tensors, in this order. Call once, first. Errors: InvalidArgument (more
  /// tensors than a header holds), as AtomicFile.
  absl::Status Begin(std::vector<TensorSpec> tensors,
                     const std::map<std::string, std::string>& metadata);
  /// The next bytes. Errors: InvalidArgument when they are not the next ones, as AtomicFile.
  absl::Status Append(const std::string& tensor,
                      std::uint64_t offset,
                      std::span<const std::byte> bytes);
  /// Errors: FailedPrecondition when bytes are missing, as AtomicFile.
  absl::Status Commit();

 private:
  explicit SafetensorsFile(std::unique_ptr<AtomicFile> file) : file_(std::move(file)) {}

  std::unique_ptr<AtomicFile> file_;
  std::vector<TensorSpec> tensors_;
  std::size_t tensor_ = 0;    ///< the one that is being written
  std::uint64_t offset_ = 0;  ///< its bytes written so far
};

}  // namespace sluice::tools
