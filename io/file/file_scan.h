#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "io/engine/io_engine.h"

namespace sluice::io {

struct FileScannerOptions {
  std::uint64_t piece_bytes = std::uint64_t{4} << 20;  ///< a multiple of kIoAlignment
  std::uint32_t queue_depth = 8;                       ///< pieces in flight, with a buffer each
};

/// Reads files front to back, several pieces in flight, past the page cache where the file system
/// allows it. The page cache drops what was read through it. Threads: externally synchronised.
class FileScanner {
 public:
  /// A piece in its place of the file; the answer says whether to go on.
  using TakeFn = absl::FunctionRef<bool(std::uint64_t offset, std::span<const std::byte> bytes)>;

  /// Errors: ResourceExhausted (memory, threads).
  static absl::StatusOr<std::unique_ptr<FileScanner>> Create(const FileScannerOptions& options);
  ~FileScanner();
  FileScanner(const FileScanner&) = delete;
  FileScanner& operator=(const FileScanner&) = delete;

  /// Blocks. Calls `take` on this thread with the first `bytes` of the file, in order. Errors:
  /// those of open(2) and pread(2), DataLoss (the file has become shorter).
  absl::Status Scan(const std::string& path, std::uint64_t bytes, TakeFn take);

  /// "io_uring" or "threads".
  std::string engine() const { return std::string(engine_->name()); }
  /// Reason against io_uring; empty if it is used.
  const std::string& engine_reason() const { return engine_reason_; }
  /// Reason why the last file went through the page cache; empty if it did not.
  const std::string& direct_reason() const { return direct_reason_; }

 private:
  class Piece;
  class Run;
  FileScanner(const FileScannerOptions& options, std::byte* memory);
  absl::Status MakeEngine();

  const FileScannerOptions options_;
  std::byte* const memory_;  ///< queue_depth pieces
  std::unique_ptr<IoEngine> engine_;
  std::string engine_reason_;
  std::string direct_reason_;
};

}  // namespace sluice::io
