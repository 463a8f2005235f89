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
  /// Makes an empty file. Errors: those of AtomicFile.
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Create(const std::string& path);

  /// Writes the header: these tensors follow, in this order. Called once, first. Errors:
  /// InvalidArgument (more tensors than a header holds), those of AtomicFile.
  absl::Status Begin(std::vector<TensorSpec> tensors,
                     const std::map<std::string, std::string>& metadata);
  /// Appends the next bytes. Errors: InvalidArgument (bytes that are not the next ones), those of
  /// AtomicFile.
  absl::Status Append(const std::string& tensor,
                      std::uint64_t offset,
                      std::span<const std::byte> bytes);
  /// Ends the file. Errors: FailedPrecondition (bytes are missing), those of AtomicFile.
  absl::Status Commit();

 private:
  explicit SafetensorsFile(std::unique_ptr<AtomicFile> file) : file_(std::move(file)) {}

  std::unique_ptr<AtomicFile> file_;
  std::vector<TensorSpec> tensors_;
  std::size_t tensor_ = 0;    ///< number of the tensor that is being written
  std::uint64_t offset_ = 0;  ///< number of its bytes written so far
};

}  // namespace sluice::tools
