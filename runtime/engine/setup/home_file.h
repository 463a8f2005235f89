#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <span>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "io/engine/io_engine.h"
#include "io/file/file_descriptor.h"
#include "runtime/engine/setup/home_engine.h"
#include "sluice/tensor.h"
#include "sluice/use.h"

namespace sluice::engine {

/// The read-only extent of a file in which a tensor's bytes are at first. Threads: any.
class HomeFile {
 public:
  /// Opens the file and checks that `bytes` follow the home's offset. Errors: NotFound,
  /// PermissionDenied, InvalidArgument (no regular file, or too short: names both sizes).
  /// A home that is only read is read past the page cache, as `direct` says. Also
  /// FailedPrecondition (`direct` is required and refused), InvalidArgument (checksums of a file of
  /// another length), those of HomeEngine::Get. `engine` outlives reads that StartRead began.
  static absl::StatusOr<std::shared_ptr<HomeFile>> Open(const FileHome& home,
                                                        std::uint64_t bytes,
                                                        Use direct,
                                                        HomeEngine& engine);
  ~HomeFile();
  HomeFile(const HomeFile&) = delete;
  HomeFile& operator=(const HomeFile&) = delete;

  /// Fills `out` with the tensor's bytes from `offset` on. Blocks. Errors: DataLoss (the file
  /// became shorter, or one that is only read has changed), or the errno's status.
  absl::Status Read(std::uint64_t offset, std::span<std::byte> out) const;
  /// Fills a whole page of a home that is only read, as Read does, with zeros behind the file's
  /// end. Bytes that pass through the page cache are dropped from it. Also DataLoss (a block
  /// differs from its checksum).
  /// REQUIRES: offset in the file, length and memory are multiples of io::kIoAlignment, and with
  /// checksums offset and length those of their blocks.
  absl::Status ReadPage(std::uint64_t offset, std::span<std::byte> page) const;
  /// Fills `out` with any bytes of a home that is only read, from `offset` on. Blocks. Bytes that
  /// pass through the page cache are dropped from it. Errors: those of ReadPage.
  absl::Status ReadPart(std::uint64_t offset, std::span<std::byte> out) const;
  /// Whether pages are read past the page cache, so that StartRead may be called.
  bool direct() const { return file_.fd >= 0; }
  /// ReadPage in two parts. A thread of the engine calls `done`, which must not block. False: not
  /// all bytes came, and ReadPage says why. True: FinishRead verifies the bytes.
  /// REQUIRES: those of ReadPage; direct(). The file outlives the read.
  void StartRead(std::uint64_t offset,
                 std::span<std::byte> page,
                 absl::AnyInvocable<void(bool)> done) const;
  absl::Status FinishRead(std::uint64_t offset, std::span<std::byte> page) const;
  /// Reason for which pages of a home that is only read pass through the page cache; empty: they do
  /// not.
  const std::string& buffered_reason() const { return buffered_reason_; }
  /// Number of the file's bytes from `offset` of the home on.
  std::uint64_t BytesFrom(std::uint64_t offset) const {
    return file_bytes_ - std::min(file_bytes_, home_.offset + offset);
  }
  /// Maps the tensor's bytes from `offset` on read-only at `at`. Errors: those of MapFile.
  absl::Status MapForReading(std::span<std::byte> at, std::uint64_t offset) const;

 private:
  HomeFile(int descriptor, FileHome home);
  absl::Status NoteFacts(std::uint64_t bytes);
  absl::Status OpenDirect(Use direct, HomeEngine& engine);
  absl::Status CheckSumCount() const;
  /// Compares bytes of the file from `at` on with their checksums.
  absl::Status Verify(std::uint64_t at, std::span<const std::byte> bytes) const;
  /// Number of a page's bytes that the file has.
  std::size_t BytesOf(std::uint64_t offset, std::span<std::byte> page) const;
  absl::Status CheckUnchanged() const;
  /// Does ReadPart by reading and verifying whole blocks of checksums. REQUIRES: checksums.
  absl::Status ReadVerified(std::uint64_t offset, std::span<std::byte> out) const;
  /// Advises the kernel of bytes from `offset` on (posix_fadvise).
  void Advise(std::uint64_t offset, std::uint64_t bytes, int advice) const;

  const int descriptor_;
  io::FileDescriptor direct_;
  io::IoFile file_;  ///< direct_ for the engine; without a descriptor where reads are buffered
  io::IoEngine* engine_ = nullptr;
  std::string buffered_reason_;
  const FileHome home_;
  std::uint64_t file_bytes_ = 0;
  timespec changed_{};  ///< time of the last change
};

}  // namespace sluice::engine
