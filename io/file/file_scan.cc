#include "io/file/file_scan.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "base/cond_var.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/strings.h"
#include "fmt/format.h"
#include "io/engine/choose_engine.h"
#include "io/file/direct_io.h"
#include "io/file/file_descriptor.h"

namespace sluice::io {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::uint64_t RoundedUp(std::uint64_t bytes) {
  return (bytes + kIoAlignment - 1) / kIoAlignment * kIoAlignment;
}

}  // namespace

/// A buffer, and the request that fills it.
class FileScanner::Piece final : public IoRequest {
 public:
  void Complete(std::int64_t result) override {
    const base::MutexLock lock(mutex_);
    result_ = result;
    is_done_ = true;
    changed_.NotifyAll();
  }

  void Begin() {
    const base::MutexLock lock(mutex_);
    is_done_ = false;
    ForgetAge();
  }

  /// Bytes moved or a negative errno.
  std::int64_t Wait() {
    const base::MutexLock lock(mutex_);
    while (!is_done_) changed_.Wait(mutex_);
    return result_;
  }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  bool is_done_ ABSL_GUARDED_BY(mutex_) = true;
  std::int64_t result_ ABSL_GUARDED_BY(mutex_) = 0;
};

/// One scan of one file.
class FileScanner::Run {
 public:
  Run(FileScanner& scanner, const std::string& path, std::uint64_t bytes)
      : scanner_(scanner), path_(path), bytes_(bytes), pieces_(scanner.options_.queue_depth) {}
  /// Buffers and descriptor go only when no request uses them.
  ~Run() {
    for (Piece& piece : pieces_) piece.Wait();
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  absl::Status Open() {
    buffered_ = FileDescriptor(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    if (buffered_.get() < 0) return base::StatusFromErrno(errno, "open " + path_);
    direct_ = FileDescriptor(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    if (direct_.get() < 0) return base::StatusFromErrno(errno, "open " + path_);
    scanner_.direct_reason_ = TurnOnDirectReads(direct_.get());
    const bool direct = scanner_.direct_reason_.empty();
    file_ = {.fd = direct ? direct_.get() : buffered_.get(),
             .bytes = RoundedUp(bytes_),
             .buffered = !direct};
    return absl::OkStatus();
  }

  absl::Status Read(TakeFn take) {
    const std::uint64_t size = scanner_.options_.piece_bytes;
    const std::uint64_t count = (bytes_ + size - 1) / size;
    for (std::uint64_t i = 0; i < std::min<std::uint64_t>(count, pieces_.size()); ++i) {
      SLUICE_RETURN_IF_ERROR(Submit(i));
    }
    for (std::uint64_t i = 0; i < count; ++i) {
      SLUICE_RETURN_IF_ERROR(Finish(i));
      if (!take(i * size, std::span(BufferOf(i), LengthOf(i)))) return absl::OkStatus();
      if (file_.buffered) {
        posix_fadvise(
            file_.fd, static_cast<off_t>(i * size), static_cast<off_t>(size), POSIX_FADV_DONTNEED);
      }
      if (i + pieces_.size() < count) SLUICE_RETURN_IF_ERROR(Submit(i + pieces_.size()));
    }
    return absl::OkStatus();
  }

 private:
  std::byte* BufferOf(std::uint64_t number) const {
    return scanner_.memory_ + number % pieces_.size() * scanner_.options_.piece_bytes;
  }
  std::uint64_t LengthOf(std::uint64_t number) const {
    const std::uint64_t size = scanner_.options_.piece_bytes;
    return std::min(size, bytes_ - number * size);
  }

  absl::Status Submit(std::uint64_t number) {
    Piece& piece = pieces_[number % pieces_.size()];
    piece.command = {.direction = IoDirection::kRead,
                     .file = &file_,
                     .offset = number * scanner_.options_.piece_bytes,
                     .data = BufferOf(number),
                     .bytes = RoundedUp(LengthOf(number))};
    piece.Begin();
    absl::Status status = scanner_.engine_->Submit(&piece);
    if (!status.ok()) piece.Complete(0);
    return status;
  }

  /// A piece that came short or failed is read again by pread(2), which says why.
  absl::Status Finish(std::uint64_t number) {
    const std::int64_t moved = pieces_[number % pieces_.size()].Wait();
    const std::uint64_t length = LengthOf(number);
    if (moved >= static_cast<std::int64_t>(length)) return absl::OkStatus();
    return ReadAgain(number * scanner_.options_.piece_bytes, std::span(BufferOf(number), length));
  }

  absl::Status ReadAgain(std::uint64_t offset, std::span<std::byte> out) const {
    while (!out.empty()) {
      const ssize_t moved =
          pread(buffered_.get(), out.data(), out.size(), static_cast<off_t>(offset));
      if (moved < 0 && errno == EINTR) continue;
      if (moved < 0) {
        return base::StatusFromErrno(errno, fmt::format("read {} at byte {}", path_, offset));
      }
      if (moved == 0) {
        return absl::DataLossError(
            base::ToAbsl(fmt::format("{} has become shorter: it ends at byte {}", path_, offset)));
      }
      out = out.subspan(static_cast<std::size_t>(moved));
      offset += static_cast<std::uint64_t>(moved);
    }
    return absl::OkStatus();
  }

  FileScanner& scanner_;
  const std::string path_;
  const std::uint64_t bytes_;
  FileDescriptor buffered_;
  FileDescriptor direct_;
  IoFile file_;
  std::vector<Piece> pieces_;
};

FileScanner::FileScanner(const FileScannerOptions& options, std::byte* memory)
    : options_(options), memory_(memory) {}

FileScanner::~FileScanner() { munmap(memory_, options_.queue_depth * options_.piece_bytes); }

absl::StatusOr<std::unique_ptr<FileScanner>> FileScanner::Create(
    const FileScannerOptions& options) {
  const std::size_t bytes = options.queue_depth * options.piece_bytes;
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return base::StatusFromErrno(errno, "mmap");
  // Huge pages are optional: without them transfers are slower, and as right.
  if (bytes >= kHugePage) madvise(memory, bytes, MADV_HUGEPAGE);
  std::unique_ptr<FileScanner> scanner(new FileScanner(options, static_cast<std::byte*>(memory)));
  SLUICE_RETURN_IF_ERROR(scanner->MakeEngine());
  return scanner;
}

absl::Status FileScanner::MakeEngine() {
  SLUICE_ASSIGN_OR_RETURN(ChosenEngine chosen,
                          ChooseEngine({.queue_depth = options_.queue_depth}, Use::kAuto));
  engine_ = std::move(chosen.engine);
  engine_reason_ = std::move(chosen.reason);
  return absl::OkStatus();
}

absl::Status FileScanner::Scan(const std::string& path, std::uint64_t bytes, TakeFn take) {
  Run run(*this, path, bytes);
  SLUICE_RETURN_IF_ERROR(run.Open());
  return run.Read(take);
}

}  // namespace sluice::io
